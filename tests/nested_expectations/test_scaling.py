"""Fits on curves whose exponents are known."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icml26.nested_expectations.scaling import (
    bootstrap_slope,
    crossing,
    local_slopes,
    log_corrected,
    slope,
)

EPS = np.geomspace(1e-2, 1e-5, 9)


@settings(deadline=None)
@given(st.floats(-1.5, -0.1), st.floats(0.01, 100))
def test_power_laws_are_found(exponent, constant):
    cost = np.geomspace(10, 1e6, 7)
    rmse = constant * cost**exponent
    assert slope(cost, rmse) == pytest.approx(exponent, abs=1e-10)
    np.testing.assert_allclose(local_slopes(cost, rmse), exponent, atol=1e-9)


@pytest.mark.parametrize("k", [0.0, 2.0, 4.0])
def test_logarithms_are_told_from_exponents(k):
    cost = 7.0 * EPS**-1 * np.log(1 / EPS) ** k
    for given_k in (k, None):
        fit = log_corrected(cost, EPS, k=given_k)
        assert fit.alpha == pytest.approx(1.0, abs=1e-8)
        assert fit.k == pytest.approx(k, abs=1e-6)
        assert fit.residual < 1e-9
        assert fit.cost(1e-8) == pytest.approx(7e8 * math.log(1e8) ** k, rel=1e-5)
    # The raw slope of the same data, by the formula alpha + k / log(1/eps) at both ends.
    raw = -1 / slope(cost, EPS)
    assert 1 + k / math.log(1e5) - 1e-9 <= raw <= 1 + k / math.log(1e2) + 1e-9


def test_crossing_of_two_lines():
    a_cost, b_cost = np.geomspace(1e2, 1e8, 7), np.geomspace(30, 3e8, 11)
    found = crossing(a_cost, 100 / a_cost, b_cost, b_cost**-0.5)
    assert found is not None
    assert found.cost == pytest.approx(1e4, rel=1e-9)
    assert found.rmse == pytest.approx(1e-2, rel=1e-9)


def test_no_crossing_is_said():
    cost = np.geomspace(1e2, 1e4, 5)
    above, below = 1000 / cost, 0.01 / cost
    assert crossing(cost, above, cost, cost**-0.5) is None  # would cross at 1e6: not extrapolated
    assert crossing(cost, below, cost, cost**-0.5) is None  # below all along
    assert crossing(cost, above, 1e6 * cost, cost**-0.5) is None  # no common costs


def test_last_crossing_counts():
    cost = np.array([1.0, 10.0, 100.0, 1000.0])
    a, b = np.array([1.0, 0.1, 0.2, 0.001]), np.array([0.5, 0.15, 0.1, 0.01])
    found = crossing(cost, a, cost, b)
    assert found is not None
    assert 100 < found.cost < 1000


def test_bootstrap_covers_the_known_slope():
    cost = np.geomspace(1e2, 1e5, 6)
    hits, widths = 0, []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        errors = rng.normal(size=(6, 40)) * cost[:, None] ** -0.5
        centre, low, high = bootstrap_slope(cost, errors, rng, resamples=300)
        assert low <= centre <= high
        hits += low <= -0.5 <= high
        widths.append(high - low)
    assert 48 <= hits <= 60  # nominal 57; the percentile interval is a little short
    assert np.mean(widths) < 0.15


def test_refusals():
    cost = np.array([1.0, 10.0, 100.0])
    for bad in (np.array([1.0, 0.0, 1.0]), np.array([1.0, np.nan, 1.0])):
        with pytest.raises(ValueError, match="finite and positive"):
            slope(cost, bad)
    with pytest.raises(ValueError, match="at least 2 points"):
        slope(cost[:1], cost[:1])
    with pytest.raises(ValueError, match="two different"):
        slope(np.ones(3), cost)
    with pytest.raises(ValueError, match="must increase"):
        local_slopes(cost[::-1].copy(), cost)
    with pytest.raises(ValueError, match="cost_b must increase"):
        crossing(cost, cost, cost[::-1].copy(), cost)
    with pytest.raises(ValueError, match="below 1"):
        log_corrected(cost, np.array([2.0, 0.1, 0.01]), k=1.0)
    with pytest.raises(ValueError, match="at least 4 points"):
        log_corrected(cost, np.array([0.2, 0.1, 0.01]))
    with pytest.raises(ValueError, match="eps"):
        log_corrected(cost, np.array([0.2, 0.1, 0.01]), k=1.0).cost(1.0)
    with pytest.raises(ValueError, match="replicates"):
        bootstrap_slope(cost, np.ones((3, 1)), np.random.default_rng(0))


def test_errors_that_are_mostly_zero_have_no_bootstrap_interval():
    errors = np.zeros((3, 8))
    errors[:, 0] = [0.1, 0.01, 0.001]
    with pytest.raises(ValueError, match="errors must not be zero"):
        bootstrap_slope(np.array([1.0, 10.0, 100.0]), errors, np.random.default_rng(0))


@pytest.mark.parametrize(("rmse", "k"), [([0.1] * 4, 1), ([0.1, 0.1, 0.01, 0.01], None)])
def test_a_fit_needs_different_errors(rmse, k):
    with pytest.raises(ValueError, match="different values"):
        log_corrected(np.array([1.0, 2.0, 3.0, 4.0]), np.array(rmse), k)
