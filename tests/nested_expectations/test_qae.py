"""The law of amplitude estimation against truths that do not use it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import binom, binomtest

from icml26.nested_expectations.qae import (
    ExactOracle,
    canonical,
    cosine,
    half_width,
    iqae,
    median_law,
    mlae,
    outcome_law,
    sample,
    window_amplitudes,
)

unhurried = settings(deadline=None, max_examples=50)  # a busy machine is not a wrong answer
M_VALUES = [2, 4, 8, 64, 1024]
probabilities = st.floats(0.0, 1.0)
states = st.sampled_from(M_VALUES)
windows = st.sampled_from(["flat", "cosine"])


def law_by_sums(a, M, window):
    """The formula of the docstring, one outcome j at a time, in plain sums."""
    theta, k = np.arcsin(np.sqrt(a)), np.arange(M)
    w = np.ones(M) if window == "flat" else np.cos(np.pi * k / M - np.pi / 2)
    w = w / np.linalg.norm(w)

    def kernel(x):
        return abs(np.sum(w * np.exp(2j * np.pi * k * x))) ** 2 / M

    law: dict[int, float] = {}
    for j in range(M):
        p = (kernel(theta / np.pi - j / M) + kernel(-theta / np.pi - j / M)) / 2
        law[min(j, M - j)] = law.get(min(j, M - j), 0.0) + p
    return np.array([law[j] for j in range(M // 2 + 1)])


@pytest.mark.parametrize("M", [2, 4, 16, 32])
@pytest.mark.parametrize("window", ["flat", "cosine"])
def test_law_is_the_sum_over_outcomes(M, window):
    a = np.array([0.0, 0.1, 0.37, 0.5, 0.93, 1.0])
    _, probs = outcome_law(a, M, window)
    assert np.max(np.abs(probs - [law_by_sums(x, M, window) for x in a])) < 1e-13


@unhurried
@given(probabilities, states, windows)
def test_law_is_normalised_and_symmetric(a, M, window):
    values, probs = outcome_law(a, M, window)
    assert np.all(probs >= 0)
    assert abs(probs.sum() - 1) < 1e-12
    # a ↔ 1 − a turns j into M/2 − j; √ is steep at 0, so a float a has 1 − a only to √ε.
    mirrored = outcome_law(1 - a, M, window)[1][::-1]
    assert np.max(np.abs(probs - mirrored)) < (1e-10 if 1e-6 < a < 1 - 1e-6 else 1e-4)
    assert np.allclose(values + values[::-1], 1, atol=1e-15)


@pytest.mark.parametrize("M", M_VALUES)
def test_flat_window_is_exact_on_the_grid(M):
    grid = np.sin(np.pi * np.arange(M // 2 + 1) / M) ** 2
    values, probs = outcome_law(grid, M, "flat")
    assert np.allclose(values, grid, atol=1e-15)
    assert np.max(np.abs(probs - np.eye(len(grid)))) < 1e-12


@unhurried
@given(probabilities, states)
def test_cosine_window_mean_identity(a, M):
    values, probs = outcome_law(a, M, "cosine")
    assert abs(probs @ values - (0.5 + np.cos(np.pi / M) * (a - 0.5))) < 1e-13


def test_flat_rmse_falls_like_root_M_and_cosine_like_M():
    """The trap: fitted slopes of log RMSE over log M, averaged over a (so no lucky phase)."""
    a = np.linspace(0.05, 0.95, 61)
    sizes = 2 ** np.arange(6, 13)
    slopes = {}
    for window in ("flat", "cosine"):
        mse = []
        for M in sizes:
            values, probs = outcome_law(a, int(M), window)
            mse.append(np.mean(np.sum(probs * (values - a[:, None]) ** 2, axis=1)))
        slopes[window] = np.polyfit(np.log(sizes), np.log(mse) / 2, 1)[0]
    assert -0.55 < slopes["flat"] < -0.45
    assert -1.05 < slopes["cosine"] < -0.95


def test_median_law_of_three_by_enumeration():
    values = np.array([0.0, 0.25, 0.5, 1.0])
    probs = np.array([[0.1, 0.2, 0.3, 0.4], [0.7, 0.0, 0.3, 0.0]])
    expected = np.zeros_like(probs)
    for n, p in enumerate(probs):
        for i in range(4):
            for j in range(4):
                for k in range(4):
                    expected[n, sorted((i, j, k))[1]] += p[i] * p[j] * p[k]
    assert np.max(np.abs(median_law(values, probs, 3)[1] - expected)) < 1e-14
    assert np.allclose(median_law(values, probs, 1)[1], probs, atol=1e-15)


@unhurried
@given(probabilities, st.sampled_from([2, 4, 8, 16, 64]), st.sampled_from([3, 5, 9]))
def test_median_does_not_lose_to_one_flat_run(a, M, K):
    values, probs = outcome_law(a, M, "flat")
    _, middle = median_law(values, probs, K)
    assert middle @ (values - a) ** 2 <= probs @ (values - a) ** 2 * (1 + 1e-9) + 1e-14


def test_median_can_lose_to_one_cosine_run():
    """So "a median never hurts" is false: the cosine law is nearly two-valued; the median picks a side."""
    a = 0.9525
    values, probs = outcome_law(a, 8, "cosine")
    one = probs @ (values - a) ** 2
    many = median_law(values, probs, 21)[1] @ (values - a) ** 2
    assert many > 1.1 * one


@unhurried
@given(
    arrays(np.float64, 6, elements=st.floats(1e-3, 1.0)),
    arrays(np.float64, 6, elements=st.floats(0.01, 1.0)),
    st.floats(-1.0, 4.0),
    st.sampled_from([3, 5, 9, 21]),
)
def test_median_loses_at_most_a_constant_whatever_the_law(weights, gaps, a, K):
    """MSE of the median ≤ max_p P(Bin(K, p) > K/2)/p times that of one run (9/8 for K = 3, always < 2).

    The median errs by more than t only if at least half of the runs do; integrate over t.
    """
    values, probs = np.cumsum(gaps), weights / weights.sum()
    p = np.linspace(1e-6, 1, 20001)
    constant = np.max(binom.sf(K // 2, K, p) / p)
    _, middle = median_law(values, probs, K)
    assert middle @ (values - a) ** 2 <= constant * (1 + 1e-9) * (probs @ (values - a) ** 2)
    if K == 3:
        assert constant == pytest.approx(9 / 8)
    assert constant < 2


def test_sample_follows_the_law():
    values, probs = outcome_law(0.3, 8, "flat")
    drawn = sample(values, probs, 40_000, np.random.default_rng(1))
    seen = np.array([np.mean(drawn == v) for v in values])
    assert np.all(np.abs(seen - probs) < 5 * np.sqrt(probs * (1 - probs) / 40_000) + 1e-12)


@pytest.mark.parametrize("window", ["flat", "cosine"])
@pytest.mark.parametrize(("M", "repeats", "confidence"), [(16, 1, 0.8), (64, 1, 0.95), (64, 5, 0.95)])
def test_phase_interval_covers_every_amplitude(window, M, repeats, confidence):
    """Exact coverage, from the law of the median, at every a of a fine grid."""
    k = half_width(M, window, repeats, confidence)
    theta = np.linspace(0, np.pi / 2, 801)
    values, probs = outcome_law(np.sin(theta) ** 2, M, window)
    _, middle = median_law(values, probs, repeats)
    near = np.abs(np.arange(M // 2 + 1) - M * theta[:, None] / np.pi) <= k + 1e-9
    assert np.min(np.sum(middle * near, axis=1)) >= confidence
    if repeats == 1 and k > 1:  # and one step less would not do
        closer = np.abs(np.arange(M // 2 + 1) - M * theta[:, None] / np.pi) <= k - 1
        assert np.min(np.sum(middle * closer, axis=1)) < confidence


ESTIMATORS = {
    "canonical": lambda oracle: canonical(oracle, 64, repeats=5),
    "cosine": lambda oracle: cosine(oracle, 128),
    "mlae": lambda oracle: mlae(oracle, [0, 1, 2, 4, 8], shots=50),
    "mlae-fisher": lambda oracle: mlae(oracle, [0, 1, 2, 4, 8], shots=50, interval="fisher"),
    "iqae": lambda oracle: iqae(oracle, 0.01, shots=50),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_intervals_cover(name):
    """150 random amplitudes: at 95 % coverage 131 hits or more have probability above 1 − 1e-4."""
    rng = np.random.default_rng(5)
    hits = 0
    for a in rng.uniform(0.03, 0.97, 150):
        found = ESTIMATORS[name](ExactOracle(a, rng))
        low, high = found.interval
        assert 0 <= low <= found.estimate <= high <= 1
        hits += low <= a <= high
    assert hits >= 131


@pytest.mark.parametrize("a", [0.0, 1.0])
@pytest.mark.parametrize("name", ["canonical", "cosine", "mlae", "iqae"])
def test_certain_outcomes(a, name):
    found = ESTIMATORS[name](ExactOracle(a, np.random.default_rng(0)))
    assert found.interval[0] <= a <= found.interval[1]
    assert found.estimate == pytest.approx(a, abs=0.01)


def test_queries_follow_from_the_schedule():
    oracle = ExactOracle(0.2, np.random.default_rng(0))
    assert canonical(oracle, 32).queries == 63
    assert cosine(oracle, 32, repeats=3).queries == 3 * 63
    assert mlae(oracle, [0, 1, 2, 4], shots=10).queries == 10 * (1 + 3 + 5 + 9)


class Recorder(ExactOracle):
    def __init__(self, a, rng):
        super().__init__(a, rng)
        self.applied, self.powers = 0, []

    def flag_counts(self, power, shots):
        self.applied += shots * (2 * power + 1)
        self.powers.append(power)
        return super().flag_counts(power, shots)


def test_iqae_reports_what_it_applied_and_beats_sampling():
    rng = np.random.default_rng(3)
    for a in rng.uniform(0.1, 0.9, 20):
        oracle = Recorder(a, rng)
        found = iqae(oracle, 1e-4)
        assert found.queries == oracle.applied
        assert found.interval[1] - found.interval[0] <= 2e-4
        raised = [
            later
            for earlier, later in zip(oracle.powers, oracle.powers[1:], strict=False)
            if later != earlier
        ]
        assert raised
        assert all(later > earlier for earlier, later in zip(raised, raised[1:], strict=False))
        assert found.queries < 1.96**2 * a * (1 - a) / 1e-4**2 / 10  # plain sampling, divided by ten


def test_mlae_reaches_its_fisher_information():
    """RMSE within 20 % of 1/√I(a), I(a) = shots·Σ(2m + 1)²/(a(1 − a)) (Suzuki et al. 2020), 200 runs."""
    rng, a, powers, shots = np.random.default_rng(11), 0.35, [0, 1, 2, 4], 100
    error = [mlae(ExactOracle(a, rng), powers, shots).estimate - a for _ in range(200)]
    bound = np.sqrt(a * (1 - a) / (shots * sum((2 * m + 1) ** 2 for m in powers)))
    assert np.sqrt(np.mean(np.square(error))) == pytest.approx(bound, rel=0.2)


def test_iqae_agrees_with_qiskit():
    """An independent implementation: same amplitude, same accuracy; estimates and costs must agree."""
    qiskit = pytest.importorskip("qiskit")
    algorithms = pytest.importorskip("qiskit_algorithms")
    from qiskit.primitives import StatevectorSampler

    a, epsilon = 0.3, 0.01
    circuit = qiskit.QuantumCircuit(1)
    circuit.ry(2 * np.arcsin(np.sqrt(a)), 0)
    problem = algorithms.EstimationProblem(circuit, objective_qubits=[0])
    theirs, ours, costs = [], [], []
    for seed in range(6):
        sampler = StatevectorSampler(default_shots=100, seed=seed)
        result = algorithms.IterativeAmplitudeEstimation(epsilon, 0.05, sampler=sampler).estimate(problem)
        found = iqae(ExactOracle(a, np.random.default_rng(seed)), epsilon)
        theirs.append(result.estimation)
        ours.append(found.estimate)
        # qiskit counts Grover operators; each is two queries, and every shot needs one A more.
        costs.append(found.queries / (2 * result.num_oracle_queries))
    assert np.all(np.abs(np.array(theirs) - a) < epsilon)
    assert np.all(np.abs(np.array(ours) - a) < epsilon)
    spread = np.hypot(np.std(theirs), np.std(ours)) / np.sqrt(6)
    assert abs(np.mean(theirs) - np.mean(ours)) < 4 * spread
    assert 0.3 < np.median(costs) < 4


BAD = [
    (lambda: outcome_law(1.2, 8), "a must lie in"),
    (lambda: outcome_law(-1e-9, 8), "a must lie in"),
    (lambda: outcome_law(float("nan"), 8), "a must lie in"),
    (lambda: outcome_law(np.array([0.1, np.nan]), 8), "a must lie in"),
    (lambda: outcome_law(np.zeros(0), 8), "empty batch"),
    (lambda: outcome_law(0.5, 6), "power of two"),
    (lambda: outcome_law(0.5, 1), "power of two"),
    (lambda: outcome_law(0.5, -4), "power of two"),
    (lambda: outcome_law(0.5, 8, "hann"), "window must be"),
    (lambda: window_amplitudes(8, "Flat"), "window must be"),
    (lambda: median_law(*outcome_law(0.5, 8), 4), "K must be odd"),
    (lambda: median_law(*outcome_law(0.5, 8), -1), "K must be odd"),
    (lambda: median_law(np.array([0.0, 1.0]), np.array([0.5, 0.6]), 3), "sum to 1"),
    (lambda: median_law(np.array([1.0, 0.0]), np.array([0.5, 0.5]), 3), "increase"),
    (lambda: median_law(np.array([0.0, 1.0]), np.zeros((0, 2)), 3), "empty batch"),
    (lambda: sample(*outcome_law(0.5, 8), 0, np.random.default_rng(0)), "size"),
    (lambda: canonical(ExactOracle(0.5, np.random.default_rng(0)), 8, repeats=2), "repeats must be odd"),
    (lambda: cosine(ExactOracle(0.5, np.random.default_rng(0)), 8, confidence=1.0), "confidence"),
    (lambda: mlae(ExactOracle(0.5, np.random.default_rng(0)), []), "powers"),
    (lambda: mlae(ExactOracle(0.5, np.random.default_rng(0)), [-1]), "powers"),
    (lambda: mlae(ExactOracle(0.5, np.random.default_rng(0)), [1], shots=0), "shots"),
    (lambda: iqae(ExactOracle(0.5, np.random.default_rng(0)), 0.5), "epsilon"),
    (lambda: iqae(ExactOracle(0.5, np.random.default_rng(0)), 0.01, ratio=1.0), "ratio"),
    (lambda: ExactOracle(float("nan"), np.random.default_rng(0)), "a must lie in"),
]


@pytest.mark.parametrize(("call", "message"), BAD)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@unhurried
@given(st.integers(1, 3), st.integers(1, 4))
def test_any_batch_shape(n, m):
    a = np.linspace(0, 1, n * m).reshape(n, m)
    values, probs = outcome_law(a, 16, "cosine")
    assert probs.shape == (n, m, 9)
    assert np.array_equal(probs[-1, -1], outcome_law(a[-1, -1], 16, "cosine")[1])
    assert values.shape == (9,)


class Scripted:
    """Says what it is told to, whatever it is asked."""

    def __init__(self, *counts):
        self.counts = list(counts)

    def phase_counts(self, M, window, shots):
        raise AssertionError("not asked for")

    def flag_counts(self, power, shots):
        return self.counts.pop(0) if len(self.counts) > 1 else self.counts[0]


@pytest.mark.parametrize("epsilon", [0.2, 0.05, 0.03])
def test_iqae_shares_its_error_among_looks(epsilon):
    """At power 0 throughout (a ratio out of reach): Clopper-Pearson of all shots at 1 - 0.05 · 6/(π s)²."""
    found = iqae(Scripted(50), epsilon, shots=100, ratio=1000.0)
    looks = found.queries // 100
    level = 1 - 0.05 * 6 / (np.pi * looks) ** 2
    exact = binomtest(50 * looks, 100 * looks).proportion_ci(level, method="exact")
    assert found.interval == pytest.approx((exact.low, exact.high), abs=1e-9)


def test_iqae_recovers_when_an_early_interval_missed():
    found = iqae(Scripted(0, 100, 50), 0.018, shots=100, ratio=1000.0)
    assert found.interval[0] < 0.5 < found.interval[1]
    assert found.interval[1] - found.interval[0] <= 0.036


@pytest.mark.parametrize(("ones", "powers"), [([30], [0]), ([30, 70, 20], [0, 1, 3])])
def test_mlae_interval_ends_where_the_likelihood_ratio_does(ones, powers):
    found = mlae(Scripted(*ones), powers, shots=100)

    def log_likelihood(a):
        angle = np.arcsin(np.sqrt(a))
        return sum(binom.logpmf(k, 100, np.sin((2 * m + 1) * angle) ** 2) for k, m in zip(ones, powers, strict=True))

    for end in found.interval:
        # 1.96 squared: one parameter, 95 %.
        assert 2 * (log_likelihood(found.estimate) - log_likelihood(end)) == pytest.approx(1.959964**2, abs=1e-3)


@pytest.mark.parametrize(
    "call",
    [
        lambda oracle: mlae(oracle, [0.5]),
        lambda oracle: mlae(oracle, [0, True]),
        lambda oracle: mlae.__wrapped__(oracle, [0], shots=2.5),
        lambda oracle: iqae.__wrapped__(oracle, 0.1, shots=2.5),
    ],
)
def test_fractions_of_shots_and_powers_are_refused(call):
    with pytest.raises(TypeError):
        call(ExactOracle(0.5, np.random.default_rng(0)))
