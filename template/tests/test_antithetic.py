"""The method against closed forms. NOT WRITTEN YET: the chapter's own tests."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icml26.CHAPTER_SLUG import antithetic_mean, plain_mean
from icml26.CHAPTER_SLUG.peers import sobol_mean

VARIANCE = (np.e**2 - 1) / 2 - (np.e - 1) ** 2
COVARIANCE = np.e - (np.e - 1) ** 2


@pytest.mark.parametrize(
    ("estimate", "predicted"), [(plain_mean, VARIANCE), (antithetic_mean, VARIANCE + COVARIANCE)]
)
def test_mean_and_variance_are_those_of_the_closed_form(estimate, predicted) -> None:
    n, runs = 32, 20_000
    means = estimate(np.exp, n, runs, np.random.default_rng(0))
    assert abs(means.mean() - (np.e - 1)) < 5 * (predicted / n / runs) ** 0.5
    assert means.var() == pytest.approx(predicted / n, rel=5 * (2 / runs) ** 0.5)


@given(st.floats(-10, 10), st.floats(-10, 10), st.integers(0, 2**32 - 1))
def test_mirrored_pairs_are_exact_for_linear_functions(slope: float, shift: float, seed: int) -> None:
    means = antithetic_mean(lambda u: slope * u + shift, 2, 3, np.random.default_rng(seed))
    np.testing.assert_allclose(means, slope / 2 + shift, rtol=0, atol=1e-12)


@pytest.mark.parametrize("n", [0, -2, 3])
def test_a_number_of_values_that_makes_no_pairs_is_refused(n: int) -> None:
    for estimate in (plain_mean, antithetic_mean):
        with pytest.raises(ValueError, match=f"n: got {n}"):
            estimate(np.exp, n, 1, np.random.default_rng(0))


def test_other_bad_input_is_refused() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="runs: got 0"):
        plain_mean(np.exp, 2, 0, rng)
    with pytest.raises(ValueError, match="f: got values of shape"):
        plain_mean(lambda u: u.sum(), 2, 1, rng)
    with pytest.raises(ValueError, match="f: got values that are not finite"):
        plain_mean(lambda u: np.full_like(u, np.nan), 2, 1, rng)
    with pytest.raises(ValueError, match="n: got 12"):
        sobol_mean(np.exp, 12, 1, rng)
