"""Classical estimators against exact values, each other, and invariances."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icml26.nested_expectations import classical
from icml26.nested_expectations.classical import (
    longstaff_schwartz,
    mlmc_derandomised,
    nested_mc,
    nested_mc_split,
    read,
    read_cost_mean,
    read_recursive,
    stopping_link,
)
from icml26.nested_expectations.problems import LatticeBermudan, TreeRNE, TwoStageTrial


def constant_tree(depth, value, scale=1.0):
    laws = [([[0, 1]] * (1 if d == 0 else 2), [[0.3, 0.7]] * (1 if d == 0 else 2)) for d in range(depth)]
    return TreeRNE(laws, [value, value], scale=scale)


@pytest.mark.parametrize("dates", [1, 2, 3])
def test_read_is_unbiased_on_the_lattice(dates):
    p = LatticeBermudan(dates=dates)
    draws = read(p, 400_000 if dates < 3 else 200_000, np.random.default_rng(dates))
    assert abs(draws.mean - p.exact()[0][0]) < 4 * draws.standard_error
    # Mean cost: the tail is heavy, so compare what is left after the same cut on both sides (D = 2).
    assert draws.costs.min() >= dates
    if dates == 2:
        levels = np.arange(8)
        known = float((0.6 * 0.4**levels * (1 + 2.0**levels)).sum())
        assert np.where(draws.costs <= 1 + 2**7, draws.costs, 0).mean() == pytest.approx(known, rel=0.03)


def test_read_cost_closed_form():
    assert read_cost_mean(1) == 1.0
    assert read_cost_mean(2) == pytest.approx(4.0)
    assert read_cost_mean(3) == pytest.approx(13.0)
    with pytest.warns(RuntimeWarning, match="infinite variance"):  # of the values; the cost's is finite then
        draws = read(LatticeBermudan(dates=3), 200_000, np.random.default_rng(0), r=0.8)
    with pytest.warns(RuntimeWarning, match="infinite variance"):
        expected = read_cost_mean(3, 0.8)
    assert draws.costs.mean() == pytest.approx(expected, rel=0.1)


def test_cost_tail_exponent():
    # P(cost > t) ~ t^(-log(1/(1-r))/log 2): at D = 2 the cost is 1 + 2^N, so P(cost > 2^n) = (1-r)^n exactly.
    costs = read(LatticeBermudan(dates=2), 400_000, np.random.default_rng(5)).costs
    for n in range(1, 7):
        assert (costs > 2**n).mean() == pytest.approx(0.4**n, abs=5 * math.sqrt(0.4**n / 400_000))


def test_recursion_and_vectors_are_one_law():
    p = LatticeBermudan(dates=3)
    slow = read_recursive(p, 1_500, np.random.default_rng(1))
    fast = read(p, 300_000, np.random.default_rng(2))
    # Cost and value are dependent; compare both on the cheap draws, where nothing is heavy-tailed.
    for level in (3, 6, 12):
        chance = (fast.costs <= level).mean()
        assert (slow.costs <= level).mean() == pytest.approx(
            chance, abs=4 * math.sqrt(chance * (1 - chance) / 1.5e3)
        )
    cheap, reference = slow.values[slow.costs <= 12], fast.values[fast.costs <= 12]
    error = reference.std() / math.sqrt(cheap.size)
    assert cheap.mean() == pytest.approx(reference.mean(), abs=4 * error)


def test_read_does_not_depend_on_the_size_of_pieces(monkeypatch):
    p = LatticeBermudan(dates=3)
    exact = p.exact()[0][0]
    monkeypatch.setattr(classical, "PIECE", 37)  # most parents now straddle pieces
    draws = read(p, 1_000, np.random.default_rng(3))
    assert abs(draws.mean - exact) < 4 * draws.standard_error
    one = constant_tree(3, 1.0)
    assert (read(one, 200, np.random.default_rng(0)).values == 1.0).all()
    assert nested_mc(one, (11, 7, 5), np.random.default_rng(0)).value == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_constant_payoff_is_returned_exactly(depth):
    one = constant_tree(depth, 1.0)
    rng = np.random.default_rng(0)
    assert (read(one, 1000, rng).values == 1.0).all()
    assert (read_recursive(one, 50, rng).values == 1.0).all()
    assert mlmc_derandomised(one, 1000, rng).value == 1.0
    assert nested_mc(one, (9,) * depth, rng).value == 1.0


def test_linear_links_leave_nothing_to_correct():
    # European put: every Delta vanishes up to rounding, so one READ draw is one path.
    p = LatticeBermudan(dates=3).european()
    draws = read(p, 20_000, np.random.default_rng(0))
    payoffs = p.value(np.arange(p.size(3)))
    distance = np.abs(draws.values[:, None] - payoffs).min(axis=1)
    assert distance.max() < 1e-8
    exact = p.exact()[0][0]
    assert abs(draws.mean - exact) < 4 * draws.standard_error
    assert nested_mc(p, (3000, 3, 3), np.random.default_rng(1)).value == pytest.approx(exact, rel=0.06)
    assert longstaff_schwartz(p, 40_000, np.random.default_rng(2)).value == pytest.approx(exact, rel=0.03)


@settings(deadline=None, max_examples=10)
@given(st.floats(0.1, 10), st.floats(0, 5), st.integers(0, 2**32 - 1))
def test_affine_payoffs_give_affine_estimates(factor, shift, seed):
    laws = [
        ([[0, 1, 2]], [[0.2, 0.5, 0.3]]),
        ([[0, 1], [1, 2], [2, 3]], [[0.5, 0.5], [0.1, 0.9], [0.7, 0.3]]),
    ]
    values, floor = np.array([0.0, 0.3, 0.5, 1.0]), 0.4
    plain = TreeRNE(laws, values, links=[lambda node, m: np.maximum(floor, m)])
    moved = TreeRNE(
        laws,
        factor * values + shift,
        links=[lambda node, m: np.maximum(factor * floor + shift, m)],
        scale=factor + shift,
    )
    for estimate in (
        lambda p: read(p, 300, np.random.default_rng(seed)).values,
        lambda p: mlmc_derandomised(p, 300, np.random.default_rng(seed)).value,
        lambda p: nested_mc(p, (20, 10), np.random.default_rng(seed)).value,
    ):
        a, b = estimate(plain), estimate(moved)
        np.testing.assert_allclose(b, factor * a + shift, rtol=1e-9, atol=1e-9 * (factor + shift))


def test_derandomised_cost_is_one_number_and_the_mean_is_right():
    for p, n in ((LatticeBermudan(dates=2), 4000), (LatticeBermudan(dates=3), 2000)):
        runs = [mlmc_derandomised(p, n, np.random.default_rng(seed)) for seed in range(40)]
        assert len({run.cost for run in runs}) == 1
        values = np.array([run.value for run in runs])
        error = values.std(ddof=1) / math.sqrt(40)
        # The bias of the levels cut off is below a tenth of one run's spread here.
        assert abs(values.mean() - p.exact()[0][0]) < 4 * error + 0.1 * values.std(ddof=1)
        assert runs[0].cost == pytest.approx(n * read_cost_mean(p.depth), rel=0.25)


def test_derandomised_top_level_zero_is_plain_sampling():
    # Level 0 returns g(one child), whose mean is known exactly: E max(floor, payoff of one child).
    p = LatticeBermudan(dates=2)
    child, law = p.children(1, np.arange(p.size(1)))
    node = np.repeat(np.arange(p.size(1)), 4)
    g = p.link(1, node, p.value(child.ravel())).reshape(law.shape)
    first, outer = p.children(0, np.array([0]))
    expected = float(outer[0] @ (law * g).sum(axis=1)[first[0]])
    run = mlmc_derandomised(p, 100_000, np.random.default_rng(0), top=0)
    assert run.cost == 200_000
    assert run.value == pytest.approx(expected, abs=4 * 9.0 / math.sqrt(100_000))
    assert abs(expected - p.exact()[0][0]) > 0.5  # the bias that the levels remove is not small


def test_nested_mc_counts_and_converges_from_above():
    p = LatticeBermudan(dates=3)
    assert nested_mc(p, (4, 3, 2), np.random.default_rng(0)).cost == 4 * (1 + 3 * (1 + 2))
    # Jensen: with few inner samples the maximum of noisy means is too large.
    p = LatticeBermudan(dates=2)
    exact = p.exact()[0][0]
    few = nested_mc(p, (40_000, 2), np.random.default_rng(1)).value
    many = nested_mc(p, (40_000, 64), np.random.default_rng(2)).value
    assert few > exact + 0.3
    assert many == pytest.approx(exact, abs=0.15)
    outer, inner = nested_mc_split(2, 10**6)
    assert (outer, inner) == (10_000, 100)


def test_longstaff_schwartz_is_close_and_not_above():
    p = LatticeBermudan(dates=5, qubits=3)
    values = [longstaff_schwartz(p, 20_000, np.random.default_rng(s)).value for s in range(8)]
    error = np.std(values, ddof=1) / math.sqrt(8)
    exact = p.exact()[0][0]
    assert np.mean(values) < exact + 4 * error
    assert np.mean(values) > 0.985 * exact
    trial = TwoStageTrial()
    estimate = longstaff_schwartz(trial, 50_000, np.random.default_rng(0))
    assert estimate.cost == 2 * 50_000 * 2
    assert estimate.value == pytest.approx(trial.exact()[0][0], rel=0.03)


def test_stopping_links_are_recognised():
    p = LatticeBermudan(dates=2)
    found = stopping_link(p, 1)
    np.testing.assert_allclose(found.floor, p.payoff(1, np.arange(p.size(1))), atol=1e-12)
    np.testing.assert_allclose(found.fee, 0.0, atol=1e-12)
    trial = TwoStageTrial(cost=3.0)
    np.testing.assert_allclose(stopping_link(trial, 1).fee, 3.0, atol=1e-10)
    assert np.isneginf(stopping_link(p.european(), 1).floor).all()
    curved = TreeRNE([([[0]], [[1.0]]), ([[0]], [[1.0]])], [0.5], links=[lambda node, m: np.tanh(m)])
    with pytest.raises(ValueError, match="not max"):
        stopping_link(curved, 1)


def test_zero_variance_works():
    p = LatticeBermudan(spot=4000, strike=1.0, dates=2)
    rng = np.random.default_rng(0)
    assert (read(p, 1000, rng).values == 0.0).all()
    assert longstaff_schwartz(p, 100, rng).value == 0.0


@pytest.mark.parametrize("r", [0.5, 0.2, 0.0, 1.0, -1.0, float("nan")])
def test_r_outside_its_range_is_refused(r):
    p = LatticeBermudan()
    for call in (
        lambda: read(p, 10, np.random.default_rng(0), r=r),
        lambda: read_recursive(p, 10, np.random.default_rng(0), r=r),
        lambda: mlmc_derandomised(p, 10, np.random.default_rng(0), r=r),
        lambda: read_cost_mean(2, r),
    ):
        with pytest.raises(ValueError, match=r"r must be in \(0.5, 1\): infinite expected cost"):
            call()


def test_infinite_variance_warns_from_the_boundary_on():
    rng = np.random.default_rng(0)
    with pytest.warns(RuntimeWarning, match="infinite variance"):
        read(LatticeBermudan(), 10, rng, r=0.6465)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(LatticeBermudan(), 10, rng, r=0.6464)


def test_empty_batches_and_wrong_sizes_are_refused():
    p, rng = LatticeBermudan(), np.random.default_rng(0)
    for call in (
        lambda: read(p, 0, rng),
        lambda: read_recursive(p, 0, rng),
        lambda: mlmc_derandomised(p, -3, rng),
        lambda: nested_mc(p, (10, 0), rng),
        lambda: longstaff_schwartz(p, 0, rng),
    ):
        with pytest.raises(ValueError, match="no empty batch"):
            call()
    with pytest.raises(ValueError, match="samples must hold 2"):
        nested_mc(p, (10,), rng)
    with pytest.raises(TypeError, match="whole number"):
        nested_mc(p, (10, True), rng)
    with pytest.raises(ValueError, match="top must be at least 0"):
        mlmc_derandomised(p, 10, rng, top=-1)
    with pytest.raises(ValueError, match="degree"):
        longstaff_schwartz(p, 10, rng, degree=-1)


def test_derandomised_inner_levels_do_not_depend_on_the_size_of_pieces(monkeypatch):
    problem = LatticeBermudan(dates=3)
    whole = mlmc_derandomised(problem, 400, np.random.default_rng(0)).cost
    monkeypatch.setattr(classical, "PIECE", 512)  # more than the outer draws, fewer than their children
    assert mlmc_derandomised(problem, 400, np.random.default_rng(0)).cost == whole


def test_longstaff_schwartz_is_biased_low_with_few_paths():
    # Exact: 6.99. On fresh paths the mean is 6.68 +- 0.12; on those that the rule was fitted to, 7.75 +- 0.13.
    problem = LatticeBermudan(dates=3)
    rng = np.random.default_rng(0)
    found = np.array([longstaff_schwartz(problem, 20, rng, degree=5).value for _ in range(120)])
    assert found.mean() < problem.exact()[0][0] + 2 * found.std() / math.sqrt(found.size)


def one_link(link, law=(0.46, 0.54)):
    return TreeRNE([([[0]], [[1.0]]), ([[0, 1]], [list(law)])], [0.0, 1.0], links=[link])


@pytest.mark.parametrize("jump", [0.56, 0.5 + 1e-6, 0.5 - 1e-6, 0.44, 0.501])
def test_a_jump_next_to_the_kink_is_no_stopping_link(jump):
    problem = one_link(lambda node, m: np.where(m < jump, 0.5, m))
    with pytest.raises(ValueError, match="not max"):
        stopping_link(problem, 1)
    with pytest.raises(ValueError, match="not max"):
        longstaff_schwartz(problem, 10, np.random.default_rng(0))


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("method", [read, mlmc_derandomised, read_recursive])
def test_a_link_that_is_undefined_outside_the_scale_is_refused(method):
    laws = [([[0]], [[1.0]]), ([[0, 1]], [[0.5, 0.5]]), ([[0, 1], [1, 0]], [[0.45, 0.55]] * 2)]
    problem = TreeRNE(laws, [0.0, 1.0], links=[lambda node, m: np.sqrt(m), lambda node, m: np.maximum(0.3, m)])
    with pytest.raises(ValueError, match="no finite value"):
        method(problem, 2000, np.random.default_rng(0))
