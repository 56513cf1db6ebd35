"""Classical estimators of a repeatedly nested expectation, with their cost.

Cost unit everywhere: one draw from a one-step sampler; payoffs and arithmetic are free.

- `nested_mc`: samples of samples of samples.
- `read`: READ, recursive randomised multilevel Monte Carlo (Syed and Wang, arXiv 2301.04095). At (d, y) draw a level N
  with P(N = n) = r (1-r)^n and 2^N children, estimate each by READ, and return g(first child) + Delta_N / p_N, where
  Delta_n = g(S/2^n) - (g(S_1/2^(n-1)) + g(S_2/2^(n-1))) / 2 for the disjoint halves of the children and Delta_0 = 0.
  Unbiased; its cost is random and heavy-tailed.
- `mlmc_derandomised`: the same with levels in fixed proportions (our construction): fixed work.
- `longstaff_schwartz`: least-squares Monte Carlo, which knows that the problem is one of stopping.

Everything is numpy in float64, the faster choice on one CPU core; `read_torch` holds READ for accelerators.
"""

from __future__ import annotations

import bisect
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from icml26.nested_expectations.problems import RNE, Real

__all__ = [
    "Draws", "Estimate", "StoppingLink", "longstaff_schwartz", "mlmc_derandomised", "nested_mc", "nested_mc_split",
    "read", "read_cost_mean", "read_recursive", "stopping_link",
]  # fmt: skip

# Children handled at once: small enough for the caches, large enough to hide Python.
PIECE = 1 << 17

INFINITE_VARIANCE = 1.0 - 2.0**-1.5  # 0.6464: for max links and a continuous state


@dataclass(frozen=True)
class Draws:
    """Independent unbiased draws: `values [n]` in the problem's unit, `costs [n]` in sampler draws."""

    values: Float[np.ndarray, " n"]
    costs: Int[np.ndarray, " n"]

    @property
    def mean(self) -> float:
        return float(self.values.mean())

    @property
    def standard_error(self) -> float:
        """Sample standard deviation over the square root of n (READ's is itself heavy-tailed)."""
        return float(self.values.std(ddof=1) / math.sqrt(self.values.size))


@dataclass(frozen=True)
class Estimate:
    """One estimate in the problem's unit, and the sampler draws it took."""

    value: float
    cost: int


def _count(name: str, number: object, least: int = 1) -> int:
    if isinstance(number, bool) or not isinstance(number, (int, np.integer)):
        raise TypeError(f"{name} must be a whole number, got {number!r}")
    if number < least:
        raise ValueError(f"{name} must be at least {least} (no empty batch), got {number}")
    return int(number)


def check_r(r: Real) -> None:
    """Refuse an r with infinite expected cost, warn of one with infinite variance."""
    if not 0.5 < r < 1.0:
        raise ValueError(f"r must be in (0.5, 1): infinite expected cost at or below 0.5; got {r!r}")
    if r >= INFINITE_VARIANCE:
        warnings.warn(
            f"r = {r:g} is at least {INFINITE_VARIANCE:.4f}: infinite variance for kinked links and a continuous state",
            RuntimeWarning,
            stacklevel=3,
        )


class OneStep:
    """Vectorised draws from the one-step samplers, by the alias method (Walker 1977; Vose 1991).

    The tables cost O(nodes · outcomes) once; a draw then costs one uniform number and three look-ups
    whatever the number of outcomes.
    """

    def __init__(self, problem: RNE) -> None:
        self.outcomes = 2**problem.qubits
        self.tables = []
        for date in range(problem.depth):
            child, law = problem.children(date, np.arange(problem.size(date)))
            keep, other = zip(*(_alias(row) for row in law), strict=True)
            second = np.take_along_axis(child, np.stack(other), axis=1)
            self.tables.append((np.stack(keep).ravel(), child.ravel(), second.ravel()))

    def draw(self, date: int, node: Int[np.ndarray, " n"], rng: np.random.Generator) -> Int[np.ndarray, " n"]:
        keep, first, second = self.tables[date]
        u = rng.random(node.size)
        u *= self.outcomes
        column = u.astype(np.int64)
        u -= column
        column += self.outcomes * node
        return np.where(u < keep[column], first[column], second[column])


def _alias(law: Float[np.ndarray, " k"]) -> tuple[Float[np.ndarray, " k"], Int[np.ndarray, " k"]]:
    k = law.size
    keep, other = np.ones(k), np.arange(k)
    mass = law * k
    small = [i for i in range(k) if mass[i] < 1.0]
    large = [i for i in range(k) if mass[i] >= 1.0]
    while small and large:
        i, j = small.pop(), large[-1]
        keep[i], other[i] = mass[i], j
        mass[j] -= 1.0 - mass[i]
        if mass[j] < 1.0:
            small.append(large.pop())
    return keep, other


def nested_mc_split(depth: int, draws: int) -> tuple[int, ...]:
    """Samples per date for about `draws` draws: m_0 ~ C^(2/(D+1)), the inner ones C^(1/(D+1)).

    Balances the outer error m_0^(-1/2) against the inner bias 1/m_d, hence RMSE ~ C^(-1/(D+1)).
    """
    _count("depth", depth)
    _count("draws", draws)
    inner = max(1, round(draws ** (1.0 / (depth + 1))))
    return (max(1, round(draws / inner ** (depth - 1))), *[inner] * (depth - 1))


def nested_mc(problem: RNE, samples: Sequence[int], rng: np.random.Generator) -> Estimate:
    """Plain nested Monte Carlo: `samples[d]` children for every node reached at date d.

    Biased where a link is curved. Raises ValueError unless there is one positive number for each date.
    """
    if len(samples) != problem.depth:
        raise ValueError(f"samples must hold {problem.depth} numbers, one a date; got {len(samples)}")
    samples = [_count(f"samples[{date}]", m) for date, m in enumerate(samples)]
    step = OneStep(problem)

    def means(date: int, node: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        if date == problem.depth:
            return problem.value(node)
        total = np.zeros(node.size)
        for lo, hi in _pieces(node.size * samples[date]):
            parent = np.arange(lo, hi) // samples[date]
            found = means(date + 1, step.draw(date, node[parent], rng))
            total[parent[0] : parent[-1] + 1] += np.bincount(parent - parent[0], weights=found)
        return problem.link(date, node, total / samples[date])

    cost = 0
    for m in reversed(samples):
        cost = m * (1 + cost)
    return Estimate(float(means(0, np.zeros(1, dtype=np.int64))[0]), cost)


def _pieces(total: int) -> list[tuple[int, int]]:
    return [(lo, min(lo + PIECE, total)) for lo in range(0, total, PIECE)]


# --- READ ---------------------------------------------------------------------------------------------------

_UNDEFINED = (
    "problem: the link of date {date} has no finite value at a mean that came up. READ's estimates are unbiased, "
    "not bounded: their means leave [0, scale = {scale:g}], so a link must be defined on all real numbers"
)

Levels = Callable[[int], tuple[Int[np.ndarray, " n"], Float[np.ndarray, " n"]]]


def _random_levels(rng: np.random.Generator, r: Real) -> Levels:
    def levels(n: int) -> tuple[Int[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        level = rng.geometric(r, size=n) - 1
        return level, (1.0 - r) ** -level.astype(np.float64) / r

    return levels


def _fixed_levels(rng: np.random.Generator, r: Real, top: int | None) -> Levels:
    """ceil(n p_l) of the n estimates get level l >= 1, the rest level 0; who gets which is shuffled.

    Deterministic work. Shuffling keeps the members of a batch exchangeable, so that a half of 2^l children
    has the law of a whole of 2^(l-1) and the levels telescope.
    """

    def levels(n: int) -> tuple[Int[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        counts = [0]
        while top is None or len(counts) <= top:
            share = n * r * (1.0 - r) ** len(counts)
            if share < 1.0 or sum(counts) + math.ceil(share) >= n:
                break
            counts.append(math.ceil(share))
        counts[0] = n - sum(counts)
        level = rng.permutation(np.repeat(np.arange(len(counts)), counts))
        return level, n / np.asarray(counts, dtype=np.float64)[level]

    return levels


class _Tree:
    """READ's recursion: over dates in Python, over everything else in numpy."""

    def __init__(self, problem: RNE, rng: np.random.Generator, levels: Levels) -> None:
        self.problem, self.rng, self.levels = problem, rng, levels
        self.step = OneStep(problem)

    def estimate(
        self, date: int, node: Int[np.ndarray, " n"], drawn: tuple[np.ndarray, np.ndarray] | None = None
    ) -> tuple[Float[np.ndarray, " n"], Int[np.ndarray, " n"]]:
        """One estimate of gamma_date at every given node, and its cost."""
        problem = self.problem
        if date == problem.depth:
            return problem.value(node), np.zeros(node.size, dtype=np.int64)
        level, weight = self.levels(node.size) if drawn is None else drawn
        # Unit 2i holds the first half of the children of node i, unit 2i + 1 the second; at level 0 the
        # first unit has the only child.
        half = np.left_shift(np.int64(1), level) >> 1
        units = np.stack([np.maximum(half, 1), half], axis=1).ravel()
        sums, costs, first = self._sums(date, node, units)
        value = problem.link(date, node, first)
        many = np.flatnonzero(level)
        y, size = node[many], half[many].astype(np.float64)
        one, two = sums[2 * many] / size, sums[2 * many + 1] / size
        delta = problem.link(date, y, 0.5 * (one + two))
        delta -= 0.5 * (problem.link(date, y, one) + problem.link(date, y, two))
        value[many] += weight[many] * delta
        if not np.isfinite(value).all():
            raise ValueError(_UNDEFINED.format(date=date, scale=problem.scale))
        return value, costs

    def _sums(
        self, date: int, node: Int[np.ndarray, " n"], units: Int[np.ndarray, " u"]
    ) -> tuple[Float[np.ndarray, " u"], Int[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """Sum over the children of every unit, cost of every node, estimate at its first child."""
        ends = np.cumsum(units)
        starts = ends - units
        total = int(ends[-1])
        last = date + 1 == self.problem.depth
        # Levels of all the children at once: the fixed proportions must not depend on the pieces.
        drawn = None if last else self.levels(total)
        sums, first = np.zeros(units.size), np.zeros(node.size)
        costs = np.zeros(units.size, dtype=np.int64)
        for lo, hi in _pieces(total):
            a, b = np.searchsorted(ends, lo, side="right"), np.searchsorted(starts, hi, side="left")
            inside = np.minimum(ends[a:b], hi) - np.maximum(starts[a:b], lo)
            unit = np.repeat(np.arange(b - a), inside)
            child = self.step.draw(date, np.repeat(node[np.arange(a, b) >> 1], inside), self.rng)
            part = None if drawn is None else (drawn[0][lo:hi], drawn[1][lo:hi])
            value, cost = self.estimate(date + 1, child, part)
            sums[a:b] += np.bincount(unit, weights=value, minlength=b - a)
            costs[a:b] += inside
            if not last:
                costs[a:b] += np.bincount(unit, weights=cost, minlength=b - a).astype(np.int64)
            even = np.arange(a + a % 2, b, 2)
            even = even[(starts[even] >= lo) & (starts[even] < hi)]
            first[even >> 1] = value[starts[even] - lo]
        return sums, costs.reshape(-1, 2).sum(axis=1), first

    def outer(self, samples: int) -> Draws:
        """`samples` estimates of the outermost, linear expectation: one child each."""
        values, costs = np.empty(samples), np.empty(samples, dtype=np.int64)
        drawn = self.levels(samples) if self.problem.depth > 1 else None
        for lo, hi in _pieces(samples):
            child = self.step.draw(0, np.zeros(hi - lo, dtype=np.int64), self.rng)
            part = None if drawn is None else (drawn[0][lo:hi], drawn[1][lo:hi])
            values[lo:hi], costs[lo:hi] = self.estimate(1, child, part)
        return Draws(values, costs + 1)


def read(problem: RNE, samples: int, rng: np.random.Generator, r: Real = 0.6) -> Draws:
    """`samples` independent READ draws, each with expectation gamma_0 and with its own cost.

    Needs r in (0.5, 1) for a finite mean cost (ValueError) and r < 0.6464 for a finite variance with kinked
    links and a continuous state (RuntimeWarning). Raises ValueError for an empty batch, and for a link that is
    not finite somewhere outside [0, scale] that an inner mean reached.
    """
    check_r(r)
    samples = _count("samples", samples)
    return _Tree(problem, rng, _random_levels(rng, r)).outer(samples)


def read_cost_mean(depth: int, r: Real = 0.6) -> float:
    """Mean cost of one READ draw: c_D = 0, c_d = r/(2r-1) (1 + c_(d+1)), and c_0 = 1 + c_1."""
    _count("depth", depth)
    check_r(r)
    cost = 0.0
    for _ in range(depth - 1):
        cost = r / (2.0 * r - 1.0) * (1.0 + cost)
    return 1.0 + cost


def read_recursive(problem: RNE, samples: int, rng: np.random.Generator, r: Real = 0.6) -> Draws:
    """READ as it is written down: one Python call for every node visited. The slow side of the race.

    No numpy where plain Python is faster: laws and payoffs are lists, a draw is a bisection, and a stopping
    link is a comparison of two floats.
    """
    check_r(r)
    samples = _count("samples", samples)
    laws = [problem.children(date, np.arange(problem.size(date))) for date in range(problem.depth)]
    children = [child.tolist() for child, _ in laws]
    cumulated = [np.cumsum(law, axis=1)[:, :-1].tolist() for _, law in laws]
    terminal = problem.value(np.arange(problem.size(problem.depth))).tolist()
    links = [_scalar_link(problem, date) for date in range(problem.depth)]

    def draw(date: int, node: int) -> tuple[float, int]:
        if date == problem.depth:
            return terminal[node], 0
        laws_here, children_here = cumulated[date][node], children[date][node]
        if date == 0:
            value, cost = draw(1, children_here[bisect.bisect_right(laws_here, rng.random())])
            return value, cost + 1
        level = int(rng.geometric(r)) - 1
        values, cost = [], 0
        for _ in range(2**level):
            value, spent = draw(date + 1, children_here[bisect.bisect_right(laws_here, rng.random())])
            values.append(value)
            cost += spent + 1
        link = links[date]
        result = link(node, values[0])
        if level:
            half = len(values) // 2
            one, two = sum(values[:half]) / half, sum(values[half:]) / half
            delta = link(node, (one + two) / 2) - (link(node, one) + link(node, two)) / 2
            result += delta / (r * (1.0 - r) ** level)
        return result, cost

    values, costs = zip(*(draw(0, 0) for _ in range(samples)), strict=True)
    return Draws(np.array(values), np.array(costs, dtype=np.int64))


def _scalar_link(problem: RNE, date: int) -> Callable[[int, float], float]:
    try:
        found = stopping_link(problem, date)
    except ValueError:
        return _checked_link(problem, date)
    floor, fee = found.floor.tolist(), found.fee.tolist()
    return lambda node, mean: float(max(floor[node], mean - fee[node]))


def _checked_link(problem: RNE, date: int) -> Callable[[int, float], float]:
    def link(node: int, mean: float) -> float:
        found = float(problem.link(date, np.array([node]), np.array([mean]))[0])
        if not math.isfinite(found):
            raise ValueError(_UNDEFINED.format(date=date, scale=problem.scale))
        return found

    return link


def mlmc_derandomised(
    problem: RNE, samples: int, rng: np.random.Generator, r: Real = 0.6, top: int | None = None
) -> Estimate:
    """READ with levels in fixed proportions: one estimate out of `samples` outer draws, at a fixed cost.

    In a batch of n estimates, ceil(n p_l) get level l = 1, 2, ... while n p_l >= 1 and l <= `top`, the rest level 0: no
    variance between levels, and the bias of the levels cut off. Ours, after the schedule of arXiv 2602.08120. For D > 2
    the cost is exactly fixed up to 2^17 samples. Errors as in `read`; ValueError for a negative `top`.
    """
    check_r(r)
    samples = _count("samples", samples)
    if top is not None:
        _count("top", top, least=0)
    draws = _Tree(problem, rng, _fixed_levels(rng, r, top)).outer(samples)
    return Estimate(draws.mean, int(draws.costs.sum()))


@dataclass(frozen=True)
class StoppingLink:
    """g(y, m) = max(floor(y), m - fee(y)) at every node of one date; floor may be -inf (no stopping)."""

    floor: Float[np.ndarray, " size"]
    fee: Float[np.ndarray, " size"]


def stopping_link(problem: RNE, date: int) -> StoppingLink:
    """Recognise max(floor, mean - fee) in the link of a date by evaluating it.

    Every node is asked at a grid, at a thousand means off it, and ever closer on both sides of its kink floor + fee,
    where a jump would hide; a spike elsewhere, narrower than scale / 500, can pass. ValueError for another form.
    """
    node = np.arange(problem.size(date))
    span = 4.0 * problem.scale
    grid = np.linspace(-span, 2.0 * span, 193)
    means = np.repeat(grid, node.size)
    g = problem.link(date, np.tile(node, grid.size), means).reshape(grid.size, node.size)
    floor, fee = g[0], grid[-1] - g[-1]
    floor = np.where(np.isclose(floor, grid[0] - fee, rtol=0, atol=1e-12 * problem.scale), -np.inf, floor)
    golden = np.modf(np.arange(1, 501) * (math.sqrt(5.0) - 1.0) / 2.0)[0]
    spread = np.concatenate([problem.scale * golden, span * (3.0 * golden - 1.0)])
    near = problem.scale * np.geomspace(2e-9, 4.0, 150)
    kink = np.where(np.isfinite(floor), floor + fee, 0.0)
    probes = np.concatenate([np.tile(spread[:, None], node.size), kink + near[:, None], kink - near[:, None]])
    found = problem.link(date, np.tile(node, len(probes)), probes.ravel()).reshape(probes.shape)
    means, g = np.concatenate([np.tile(grid[:, None], node.size), probes]), np.concatenate([g, found])
    if not np.allclose(g, np.maximum(floor, means - fee), rtol=0, atol=1e-9 * problem.scale):
        raise ValueError(f"problem: the link of date {date} is not max(floor, mean - fee), a stopping problem")
    return StoppingLink(floor, fee)


def longstaff_schwartz(problem: RNE, paths: int, rng: np.random.Generator, degree: int = 3) -> Estimate:
    """Least-squares Monte Carlo (Longstaff and Schwartz 2001) for optimal stopping.

    The continuation value is regressed on Legendre polynomials up to `degree` of the standardised state
    (`problem.state`, else the node number), over the paths where stopping may pay. The rule found is valued
    on as many fresh paths, so the estimate is biased low. Costs 2 · paths · D draws. Raises ValueError for a
    problem that is not one of stopping, an empty batch or a negative degree.
    """
    paths, degree = _count("paths", paths), _count("degree", degree, least=0)
    links = [stopping_link(problem, date) for date in range(problem.depth)]
    step = OneStep(problem)
    state = getattr(problem, "state", lambda date, node: node.astype(np.float64))

    def simulate() -> list[Int[np.ndarray, " n"]]:
        path = [np.zeros(paths, dtype=np.int64)]
        for date in range(problem.depth):
            path.append(step.draw(date, path[-1], rng))
        return path

    def basis(date: int, node: Int[np.ndarray, " n"]) -> Float[np.ndarray, "n b"]:
        every = state(date, np.arange(problem.size(date)))
        spread = float(np.ptp(every)) or 1.0
        return np.polynomial.legendre.legvander(2.0 * (state(date, node) - every.min()) / spread - 1.0, degree)

    weights: list[Float[np.ndarray, " b"] | None] = [None] * problem.depth

    def value(path: list[Int[np.ndarray, " n"]], fit: bool) -> Float[np.ndarray, " n"]:
        gain = problem.value(path[-1])
        for date in range(problem.depth - 1, 0, -1):
            node = path[date]
            floor, carry = links[date].floor[node], gain - links[date].fee[node]
            # Stopping for nothing beats going on only where going on has a fee.
            pays = (floor > 0.0) | ((links[date].fee[node] > 0.0) & np.isfinite(floor))
            if fit and pays.any():
                weights[date] = np.linalg.lstsq(basis(date, node[pays]), carry[pays], rcond=None)[0]
            gain, rule = carry, weights[date]
            if rule is not None and pays.any():
                stop = pays.copy()
                stop[pays] = floor[pays] >= basis(date, node[pays]) @ rule
                gain = np.where(stop, floor, carry)
        return gain

    value(simulate(), True)
    return Estimate(float(value(simulate(), False).mean()), 2 * paths * problem.depth)
