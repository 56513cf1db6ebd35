"""The emulator against brute-force enumeration, closed forms and invariances."""

import itertools
import math
import time
import warnings
from collections import defaultdict

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from icml26.nested_expectations.emulator import NestedQAE, clip_law, growing_M0, sum_laws
from icml26.nested_expectations.problems import LatticeBermudan, TreeRNE, TwoStageTrial
from icml26.nested_expectations.qae import outcome_law


def small_tree(floor=0.45, scale=1.0):
    laws = [([[0, 1]], [[0.35, 0.65]]), ([[0, 1], [1, 2]], [[0.25, 0.75], [0.6, 0.4]])]
    return TreeRNE(
        laws,
        scale * np.array([0.1, 0.5, 0.9]),
        links=[lambda node, m: np.maximum(scale * floor, m)],
        scale=scale,
    )


def constant_tree(depth, value=1.0):
    laws = [([[0, 1]] * min(d + 1, 2), [[0.3, 0.7]] * min(d + 1, 2)) for d in range(depth)]
    return TreeRNE(laws, [value, value])


class Enumerated:
    """Est_d by dictionaries {register point: mass}, one outcome at a time: slow, short, nothing shared."""

    def __init__(self, problem, M0, c, window, bits, mean="clip"):
        self.p, self.M0, self.c, self.window, self.steps, self.mean = problem, M0, c, window, 2**bits, mean

    def qae(self, a, M, low, span):
        law = defaultdict(float)
        for value, mass in zip(*outcome_law(float(min(max(a, 0), 1)), M, self.window), strict=True):
            place = low + span * value
            left = math.floor(place)
            law[left] += mass * (left + 1 - place)
            law[left + 1] += mass * (place - left)
        return law

    def expected(self, date, y, f):
        child, law = self.p.children(date, np.array([y]))
        return sum(w * f(int(k)) for k, w in zip(child[0], law[0], strict=True))

    def estimate(self, date, y, level):
        p = self.p
        if date == p.depth - 1:
            a = self.expected(date, y, lambda k: float(p.value(np.array([k]))[0]) / p.scale)
            terms = [self.qae(a, self.M0 * 2**level, 0, self.steps)]
        else:
            terms = []
            for q in range(level + 1):
                terms += self.differences(date, y, q, self.M0 * 2 ** (level - q))
        total = {0: 1.0}
        for term in terms:
            new = defaultdict(float)
            for (x, m), (z, n) in itertools.product(total.items(), term.items()):
                new[x + z] += m * n
            total = new
        law = defaultdict(float)
        for x, m in total.items():
            mean = min(max(x, 0), self.steps) / self.steps * p.scale
            g = float(p.link(date, np.array([y]), np.array([mean]))[0]) if date else mean
            place = g / p.scale * self.steps
            left = math.floor(place + 1e-9)
            law[left] += m * (left + 1 - place)
            law[left + 1] += m * (place - left)
        return law

    def differences(self, date, y, q, M):
        """The amplitude estimations for the mean of Delta_q."""
        if q == 0:
            a = self.expected(date, y, lambda k: self.delta(date + 1, k, 0, lambda d: d / self.steps))
            return [self.qae(a, M, 0, self.steps)]
        if self.mean == "clip":
            R = int(self.c * self.steps / 2**q)
            a = self.expected(date, y, lambda k: self.delta(date + 1, k, q, lambda d: (d + R) / (2 * R)))
            return [self.qae(a, M, -R, 2 * R)]
        return [self.shell(date, y, q, M, sign, k) for sign in (1, -1) for k in range(q + 1)]

    def shell(self, date, y, q, M, sign, k):
        top = self.steps // 2**k
        low = top // 2 if k < q else 0

        def inside(d):
            return sign * d / top if low < sign * d <= top else 0.0

        a = self.expected(date, y, lambda child: self.delta(date + 1, child, q, inside))
        return {sign * z: m for z, m in self.qae(a, M, 0, top).items()}

    def delta(self, date, y, q, f):
        """E f(Delta_q), over the joint law of the whole chain, f of a difference in register points."""
        total = 0.0
        for outcome in itertools.product(*(self.estimate(date, y, s).items() for s in range(q + 1))):
            mass = math.prod(m for _, m in outcome)
            if self.mean == "clip":
                chain = [outcome[0][0]]
                for s, (z, _) in enumerate(outcome[1:], start=1):
                    R = int(self.c * self.steps / 2**s)
                    chain.append(min(max(z, chain[-1] - R), chain[-1] + R))
                    assert abs(chain[-1] - chain[-2]) <= R
            else:
                chain = [z for z, _ in outcome]
            total += mass * f(chain[-1] - (chain[-2] if q else 0))
        return total


@pytest.mark.parametrize("window", ["cosine", "flat"])
@pytest.mark.parametrize(("mean", "bits"), [("clip", 6), ("clip", 3), ("dyadic", 5)])
@pytest.mark.parametrize("level", [0, 1])
def test_equals_brute_force(window, mean, bits, level):
    tree = small_tree()
    q = NestedQAE(tree, M0=4, c=0.5, window=window, grid_bits=bits, mean=mean)
    brute = Enumerated(tree, 4, 0.5, window, bits, mean)
    expected = brute.estimate(0, 0, level)
    law = q.law_at(0, level)[0]
    for z, mass in enumerate(law):
        assert mass == pytest.approx(expected[z], abs=1e-12)
    if level == 1:
        inner = brute.estimate(1, 1, 1)
        np.testing.assert_allclose(q.law_at(1, 1)[1], [inner[z] for z in range(2**bits + 1)], atol=1e-12)


def test_telescoping_identity():
    # Sum of E Delta_p over the joint law, one by one, against the mean of the last link of the chain.
    tree = small_tree()
    q = NestedQAE(tree, M0=2, c=0.5, grid_bits=4)
    brute = Enumerated(tree, 2, 0.5, "cosine", 4)
    for node in (0, 1):
        parts = [brute.delta(1, node, p, lambda d: d / 16) for p in range(3)]
        chain = q.chain_means(1, 2)[:, node]
        np.testing.assert_allclose(np.cumsum(parts), chain, atol=1e-12)


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 20), st.integers(2, 12), st.integers(0, 2**32 - 1))
def test_clip_law_against_pairs(radius, points, seed):
    rng = np.random.default_rng(seed)
    chain, fresh = rng.dirichlet(np.full(points, 0.3), size=(2, 3))
    expected = np.zeros((3, points))
    for c, f in itertools.product(range(points), repeat=2):
        expected[:, min(max(f, c - radius), c + radius)] += chain[:, c] * fresh[:, f]
    law = clip_law(torch.from_numpy(chain), torch.from_numpy(fresh), radius).numpy()
    np.testing.assert_allclose(law, expected, atol=1e-13)


def test_clipped_chain_moves_by_at_most_the_radius():
    fresh = torch.full((1, 33), 1 / 33, dtype=torch.float64)
    for start in (0, 5, 16, 32):
        point = torch.zeros(1, 33, dtype=torch.float64)
        point[0, start] = 1.0
        support = torch.nonzero(clip_law(point, fresh, 4)[0] > 1e-15).ravel()
        assert (support - start).abs().max() == 4


def test_sum_of_laws_against_direct_convolution():
    rng = np.random.default_rng(0)
    laws = [rng.dirichlet(np.ones(n), size=2) for n in (3, 40, 7, 129)]
    total = sum_laws([torch.from_numpy(law) for law in laws]).numpy()
    for row in range(2):
        direct = np.array([1.0])
        for law in laws:
            direct = np.convolve(direct, law[row])
        np.testing.assert_allclose(total[row], direct, atol=1e-15)


@pytest.mark.parametrize("problem", [LatticeBermudan(dates=3), TwoStageTrial(qubits=2)])
@pytest.mark.parametrize("options", [{}, {"telescoping": False}, {"mean": "dyadic", "repeats": 3}])
def test_total_mass_is_one(problem, options):
    q = NestedQAE(problem, grid_bits=9, **options)
    for level in range(3):
        for date in range(problem.depth):
            law = q.law_at(date, level)
            assert law.min() > -1e-12
            np.testing.assert_allclose(law.sum(axis=1), 1.0, atol=1e-12)


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("options", [{}, {"telescoping": False}, {"mean": "dyadic"}])
def test_constant_payoff_with_the_flat_window_is_exact(depth, options):
    # Catches a missing base term: without it the estimate of 1 would be 0.
    q = NestedQAE(constant_tree(depth), M0=4, window="flat", grid_bits=8, **options)
    for level in range(3):
        values, probs = q.law(level)
        assert probs[-1] == pytest.approx(1.0, abs=1e-12)
        assert values[-1] == 1.0


@pytest.mark.parametrize("payoff", [1.0, 0.3])
def test_cosine_window_shrinks_towards_one_half(payoff):
    # One amplitude estimation has mean 1/2 + cos(pi/M) (a - 1/2); a constant 1 gives cos^2(pi/2M).
    q = NestedQAE(constant_tree(1, payoff), M0=8, grid_bits=10)
    for level in range(4):
        M = 8 * 2**level
        mean = q.bias(level) + payoff
        assert mean == pytest.approx(0.5 + math.cos(math.pi / M) * (payoff - 0.5), abs=1e-12)
    if payoff == 1.0:
        assert mean == pytest.approx(math.cos(math.pi / 128) ** 2, abs=1e-12)
    shifted = NestedQAE(constant_tree(1, payoff / 2), M0=8, grid_bits=10)
    moved = (q.bias(0) + payoff) - (shifted.bias(0) + payoff / 2)
    assert moved == pytest.approx(payoff / 2 * math.cos(math.pi / 8), abs=1e-12)


def test_depth_one_is_plain_amplitude_estimation():
    p = LatticeBermudan(dates=1)
    q = NestedQAE(p, M0=16, grid_bits=12)
    values, probs = q.law(2)
    a = p.exact()[0][0] / p.scale
    places, masses = outcome_law(float(a), 64, "cosine")
    assert values @ probs == pytest.approx(p.scale * float(places @ masses), rel=1e-12)
    exact_square = p.scale**2 * float((places - a) ** 2 @ masses)
    # Splitting the mass adds at most a quarter of a squared step to the variance.
    assert exact_square <= q.rmse(2) ** 2 <= exact_square + (p.scale / 2**12) ** 2 / 4
    assert q.cost(2) == 2 * 64 - 1


def test_linear_links_agree_with_the_binomial_price():
    p = LatticeBermudan(dates=3).european()
    for options in ({}, {"telescoping": False}):
        q = NestedQAE(p, grid_bits=12, **options)
        assert abs(q.bias(5)) < 3 * q.rmse(5)
        assert q.rmse(5) < 0.012 * p.scale
        assert q.target == pytest.approx(
            LatticeBermudan(dates=1, qubits=2).european().exact()[0][0], rel=0.05
        )


@settings(deadline=None, max_examples=10)
@given(st.floats(0.01, 1000))
def test_scaling_the_payoffs_scales_the_law(factor):
    a = NestedQAE(small_tree(), M0=4, grid_bits=7)
    b = NestedQAE(small_tree(scale=factor), M0=4, grid_bits=7)
    np.testing.assert_allclose(b.law(2)[0], factor * a.law(2)[0], rtol=1e-12)
    np.testing.assert_allclose(b.law(2)[1], a.law(2)[1], atol=1e-9)


def test_nodes_in_chunks_give_the_same_law():
    p = TwoStageTrial(qubits=3)
    whole, pieces = NestedQAE(p, grid_bits=8), NestedQAE(p, grid_bits=8, chunk=2 * 257)
    np.testing.assert_allclose(whole.law(3)[1], pieces.law(3)[1], atol=1e-13)


def test_levels_may_be_asked_in_any_order():
    p = LatticeBermudan(dates=2)
    up, down = NestedQAE(p, grid_bits=9), NestedQAE(p, grid_bits=9)
    rising = [up.rmse(level) for level in range(4)]
    falling = [down.rmse(level) for level in reversed(range(4))]
    np.testing.assert_allclose(rising, falling[::-1], rtol=1e-12)


def test_costs_are_exact_integers():
    two = LatticeBermudan(dates=2)
    q = NestedQAE(two, M0=16, grid_bits=8)
    # Level 1 by hand: runs of M = 32 over the chain's first link, of M = 16 over its first two.
    assert q.cost(0) == 31 * (1 + 31)
    assert q.cost(1) == 63 * (1 + 31) + 31 * (1 + 31 + 63)
    direct = NestedQAE(two, M0=16, grid_bits=8, telescoping=False)
    assert direct.cost(3) == 255 * (1 + 255)
    deep = NestedQAE(LatticeBermudan(dates=3), grid_bits=8).cost(60)
    assert isinstance(deep, int)
    assert deep > 2**63
    assert NestedQAE(two, M0=16, grid_bits=8, repeats=5).cost(0) == 155 * (1 + 155)


def test_errors_fall_as_the_theory_says():
    p = LatticeBermudan(dates=2)
    direct = NestedQAE(p, grid_bits=14, telescoping=False)
    costs = np.log([direct.cost(n) for n in range(1, 7)])
    errors = np.log([direct.rmse(n) for n in range(1, 7)])
    assert np.polyfit(costs, errors, 1)[0] == pytest.approx(-0.5, abs=0.03)
    nested = NestedQAE(p, grid_bits=14)
    scaled = [nested.cost(n) * nested.rmse(n) / p.scale / (n + 1) ** 2 for n in range(4, 9)]
    assert max(scaled) / min(scaled) < 1.25


def test_fixed_M0_leaves_a_bias_that_a_growing_one_removes():
    p = LatticeBermudan(dates=2)
    small = NestedQAE(p, M0=4, grid_bits=12)
    growing = NestedQAE(p, M0=growing_M0(4, every=2), grid_bits=12)
    assert growing.M0(0) == 4
    assert growing.M0(6) == 16
    assert abs(small.bias(9)) > 0.85 * abs(small.bias(8))  # nearly a floor, where the RMSE should halve
    assert abs(growing.bias(9)) < 0.01 * abs(small.bias(9))


def test_coarse_registers_are_reported():
    p = LatticeBermudan(dates=1)
    with pytest.warns(RuntimeWarning, match="too coarse"):
        NestedQAE(p, grid_bits=4).rmse(4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        NestedQAE(p, grid_bits=12).rmse(4)


def test_zero_variance_payoff():
    q = NestedQAE(LatticeBermudan(spot=4000, strike=1.0, dates=2), window="flat", grid_bits=8)
    with pytest.warns(RuntimeWarning, match="too coarse"):
        assert q.rmse(2) == pytest.approx(0.0, abs=1e-6)


def test_work_is_near_linear_in_the_register_and_batches_pay():
    def seconds(bits, chunk=1 << 23, problem=LatticeBermudan(dates=2), level=4):  # noqa: B008
        taken = []
        for _ in range(5):
            start = time.perf_counter()
            NestedQAE(problem, grid_bits=bits, chunk=chunk).law(level)
            taken.append(time.perf_counter() - start)
        return min(taken)

    # Generous bounds: a shared machine. The race measures the targets (slope 1.2, ratio 3).
    assert math.log2(seconds(16) / seconds(13)) / 3 < 1.5
    many = TwoStageTrial(qubits=5)
    assert seconds(7, 1, many, 2) > 2 * seconds(7, problem=many, level=2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"M0": 12}, "M0 must be a power of two"),
        ({"M0": 1}, "M0 must be a power of two"),
        ({"c": 0.0}, "c must lie"),
        ({"c": float("nan")}, "c must lie"),
        ({"window": "hann"}, "window"),
        ({"mean": "median"}, "mean"),
        ({"grid_bits": 0}, "grid_bits"),
        ({"repeats": 2}, "repeats"),
        ({"chunk": 0}, "chunk"),
    ],
)
def test_settings_are_checked(change, message):
    with pytest.raises((ValueError, TypeError), match=message):
        NestedQAE(LatticeBermudan(), **change)


def test_bad_levels_are_refused():
    q = NestedQAE(LatticeBermudan(), grid_bits=6)
    for call in (q.law, q.cost, q.rmse, q.bias):
        with pytest.raises(ValueError, match="level must not be negative"):
            call(-1)
    with pytest.raises(ValueError, match="grid_bits = 6 cannot hold the clip window"):
        q.law(7)
    with pytest.raises(ValueError, match="date must lie"):
        q.law_at(2, 0)
    with pytest.raises(ValueError, match="radius"):
        clip_law(torch.ones(1, 3), torch.ones(1, 3), 0)


def test_a_problem_that_leaves_its_scale_is_refused():
    class Shrunk:
        """A put whose scale is stated too small."""

        def __init__(self, inner, scale):
            self.inner, self.scale = inner, scale

        def __getattr__(self, name):
            return getattr(self.inner, name)

    with pytest.raises(ValueError, match=r"payoff leaves \[0, scale = 10\]"):
        NestedQAE(Shrunk(LatticeBermudan(), 10.0), grid_bits=6).law(0)


@pytest.mark.parametrize("mean", ["clip", "dyadic"])
def test_an_interrupted_call_leaves_nothing_behind(mean):
    class Interrupted(LatticeBermudan):
        armed = False

        def link(self, date, node, mean):
            if type(self).armed and node.max() == self.size(1) - 1:  # the last chunk of date 1
                raise KeyboardInterrupt
            return super().link(date, node, mean)

    options = {"M0": 4, "grid_bits": 8, "chunk": 257, "mean": mean}
    undisturbed = NestedQAE(LatticeBermudan(), **options).law(3)[1]
    emulator = NestedQAE(Interrupted(), **options)
    emulator.law(1)
    Interrupted.armed = True
    with pytest.raises(KeyboardInterrupt):
        emulator.law(3)
    Interrupted.armed = False
    assert np.array_equal(emulator.law(3)[1], undisturbed)


def test_a_register_is_fine_enough_at_eight_steps_an_error():
    emulator = NestedQAE(small_tree(scale=2.0), grid_bits=5)
    step = 2.0 / 2**5
    assert emulator.resolved(8.001 * step)
    assert not emulator.resolved(7.999 * step)


@pytest.mark.parametrize("options", [{"mean": "dyadic"}, {"telescoping": False}])
def test_only_the_clipped_chain_has_chain_means(options):
    with pytest.raises(ValueError, match="chain_means"):
        NestedQAE(small_tree(), grid_bits=6, **options).chain_means(1, 1)


def test_repeats_and_growth_are_checked():
    with pytest.raises(TypeError, match="repeats"):
        NestedQAE.__init__.__wrapped__(object.__new__(NestedQAE), small_tree(), repeats=3.0)
    with pytest.raises(ValueError, match="every"):
        growing_M0(16, 0)
    with pytest.raises(ValueError, match="start"):
        growing_M0(0)
