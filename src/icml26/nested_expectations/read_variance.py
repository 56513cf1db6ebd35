"""READ's true variance, level by level, where sampling misjudges it.

On a lattice one node may have its two alternatives nearly equal. Its deep levels carry much of the variance,
but a level n comes up with probability r (1-r)^n only: a sample of 4e5 draws rarely sees them, and its
variance comes out too small. Here E Delta_n and E Delta_n^2 are computed from the law of the half means.

For a stopping link g(m) = max(floor, m - fee), with A and B the half means minus (floor + fee), the
difference is Delta = max(0, (A + B)/2) - (A^+ + B^+)/2, which vanishes unless A and B have opposite signs,
and then is -min(|A|, |B|)/2. So with independent halves, without any cancellation,

    E Delta     = -int_0^inf   P(A > t) P(B < -t) dt,
    E Delta^2   =  int_0^inf t P(A > t) P(B < -t) dt      (A and B alike).

Half means of few children have their exact multinomial law, those of many the normal one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Float, Int
from scipy.special import gammaln, ndtr

from icml26.nested_expectations.classical import check_r, stopping_link
from icml26.nested_expectations.problems import RNE, Real

__all__ = ["ReadVariance", "read_variance"]


# The largest share of the variance that the last level may hold before the series counts as divergent.
NEGLIGIBLE = 1e-6


@dataclass(frozen=True)
class ReadVariance:
    """READ's variance for one outer draw of a problem with D = 2, in the problem's unit squared.

    `first` is Var of g(first child) over nodes and children; `first_moment[n]` and `second_moment[n]` are
    E Delta_n and E Delta_n^2 averaged over the nodes of date 1; `variance` is what they and the cross terms add
    up to, with deep levels up to the last; `exact_levels` says up to which n the halves were multinomial.
    """

    variance: float
    mean: float
    first: float
    first_moment: Float[np.ndarray, " levels"]
    second_moment: Float[np.ndarray, " levels"]
    exact_levels: int


def read_variance(problem: RNE, r: Real = 0.6, levels: int = 60, atoms: int = 50_000) -> ReadVariance:
    """True mean and variance of one READ draw for D = 2 and stopping links.

    `atoms` bounds the size of a multinomial law held; beyond it the halves are normal. Deeper problems are
    refused: the law of an inner READ estimate is unbounded and heavy-tailed, so no such list of atoms holds
    it. The variance is inf when the series over levels has not died out at the last level: where a node's mean
    lies on its kink E Delta_n^2 falls like 2^-n, slower than any allowed r forgives. (With few `levels`, inf
    may also say that they are too few.) Raises ValueError for D other than 2, links of another form, an r as in
    `read`, levels outside 1..1000, atoms below 1.
    """
    check_r(r)
    if problem.depth != 2:
        raise ValueError(f"problem must have depth 2 for an exact variance, got depth {problem.depth}")
    if not 1 <= levels <= 1000:
        raise ValueError(f"levels must lie in 1..1000, got {levels}")
    if atoms < 1:
        raise ValueError(f"atoms must be at least 1, got {atoms}")
    link = stopping_link(problem, 1)
    child, outer = problem.children(0, np.zeros(1, dtype=np.int64))
    weight = np.bincount(child[0], weights=outer[0], minlength=problem.size(1))
    inner_child, law = problem.children(1, np.arange(problem.size(1)))
    payoff = problem.value(np.arange(problem.size(2)))[inner_child]
    chance = r * (1.0 - r) ** np.arange(levels + 1)
    average, second = np.zeros(levels + 1), np.zeros(levels + 1)
    mean = square = last = first_mean = first_square = 0.0
    exact_levels = levels
    for y in np.flatnonzero(weight):
        kink = link.floor[y] + link.fee[y]
        value, probability = _distinct(payoff[y], law[y])
        first = np.maximum(link.floor[y], value - link.fee[y])
        node = _node_moments(value, probability, float(kink), first, levels, atoms)
        exact_levels = min(exact_levels, node.exact_levels)
        average += weight[y] * node.mean
        second += weight[y] * node.second
        first_mean += weight[y] * float(probability @ first)
        first_square += weight[y] * float(probability @ first**2)
        mean += weight[y] * (float(probability @ first) + float(node.mean[1:].sum()))
        with np.errstate(divide="ignore", invalid="ignore"):  # at deep levels both may underflow to 0
            share = np.where(node.second[1:] > 0.0, node.second[1:] / chance[1:], 0.0)
        square += weight[y] * float(probability @ first**2 + 2.0 * node.cross[1:].sum() + share.sum())
        last += weight[y] * float(share[-1])
    variance = square - mean**2
    if not last <= NEGLIGIBLE * variance:
        variance = math.inf
    return ReadVariance(variance, mean, first_square - first_mean**2, average, second, exact_levels)


@dataclass
class _Node:
    """E Delta_n, E Delta_n^2 and E[g(first child) Delta_n] at one node, n = 0..levels."""

    mean: Float[np.ndarray, " levels"]
    second: Float[np.ndarray, " levels"]
    cross: Float[np.ndarray, " levels"]
    exact_levels: int = 0


def _node_moments(
    value: Float[np.ndarray, " k"],
    law: Float[np.ndarray, " k"],
    kink: float,
    first: Float[np.ndarray, " k"],
    levels: int,
    atoms: int,
) -> _Node:
    node = _Node(np.zeros(levels + 1), np.zeros(levels + 1), np.zeros(levels + 1))
    if not np.isfinite(kink) or not value.min() < kink < value.max():
        node.exact_levels = levels  # the link is linear where it is used: no difference at any level
        return node
    exact = True
    mu = float(law @ value)
    sigma = math.sqrt(float(law @ (value - mu) ** 2))
    for n in range(1, levels + 1):
        m = 2 ** (n - 1)
        # One child has the law of the payoffs, however few atoms are allowed.
        exact = exact and (m == 1 or math.comb(m + value.size - 1, value.size - 1) <= atoms)
        if exact:
            node.exact_levels = n
            half = _multinomial_mean(value, law, m)
            rest = _multinomial_mean(value, law, m - 1) if m > 1 else (np.zeros(1), np.ones(1))
            node.mean[n], node.second[n] = _moments(half, half, kink)
            for x, p, g in zip(value, law, first, strict=True):
                shifted = ((rest[0] * (m - 1) + x) / m, rest[1])  # the half that holds the first child
                node.cross[n] += p * g * _moments(shifted, half, kink)[0]
        else:
            shift, spread = mu - kink, sigma / math.sqrt(m)
            node.mean[n], node.second[n] = _normal_moments(shift, shift, spread, spread)
            if m < 2**40:  # beyond, one child in m cannot be told from none
                tight = sigma * math.sqrt(m - 1) / m
                for x, p, g in zip(value, law, first, strict=True):
                    near = shift + (x - mu) / m
                    node.cross[n] += p * g * _normal_moments(near, shift, tight, spread)[0]
            else:
                node.cross[n] = float(law @ first) * node.mean[n]
    return node


def _distinct(
    value: Float[np.ndarray, " k"], law: Float[np.ndarray, " k"]
) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
    """Outcomes with equal payoffs are one outcome: out of the money all are worth zero."""
    distinct, which = np.unique(value[law > 0], return_inverse=True)
    return distinct, np.bincount(which, weights=law[law > 0])


def _compositions(total: int, parts: int) -> Int[np.ndarray, "c parts"]:
    """All ways to write `total` as an ordered sum of `parts` non-negative whole numbers."""
    rows = np.zeros((1, 0), dtype=np.int64)
    left = np.array([total])
    for _ in range(parts - 1):
        repeat = left + 1
        ends = np.cumsum(repeat)
        used = np.arange(ends[-1]) - np.repeat(ends - repeat, repeat)
        rows = np.concatenate([np.repeat(rows, repeat, axis=0), used[:, None]], axis=1)
        left = np.repeat(left, repeat) - used
    return np.concatenate([rows, left[:, None]], axis=1)


def _multinomial_mean(
    value: Float[np.ndarray, " k"], law: Float[np.ndarray, " k"], m: int
) -> tuple[Float[np.ndarray, " c"], Float[np.ndarray, " c"]]:
    """Exact law of the mean of m independent outcomes: places and masses."""
    counts = _compositions(m, value.size)
    logs = math.lgamma(m + 1) - gammaln(counts + 1).sum(axis=1) + counts @ np.log(law)
    return counts @ value / m, np.exp(logs)


Law = tuple[np.ndarray, np.ndarray]  # places and masses, of one length


def _moments(one: Law, two: Law, kink: float) -> tuple[float, float]:
    """(E Delta, E Delta^2) for independent half means with the given discrete laws."""
    mean = second = 0.0
    for above, below in ((one, two), (two, one)):
        a, b = above[0] - kink, kink - below[0]
        ends = np.unique(np.concatenate([[0.0], a[a > 0], b[b > 0]]))
        if ends.size < 2:
            continue
        # Survival functions are steps: constant between neighbouring ends.
        left, right = ends[:-1], ends[1:]
        product = _survival(a, above[1], left) * _survival(b, below[1], left)
        mean -= 0.5 * float(product @ (right - left))
        second += 0.25 * float(product @ (right**2 - left**2))
    return mean, second


def _survival(
    place: Float[np.ndarray, " c"], mass: Float[np.ndarray, " c"], t: Float[np.ndarray, " t"]
) -> Float[np.ndarray, " t"]:
    """P(place > t)."""
    order = np.argsort(place)
    tail = np.concatenate([np.cumsum(mass[order][::-1])[::-1], [0.0]])
    return np.asarray(tail[np.searchsorted(place[order], t, side="right")])


@lru_cache(maxsize=1)
def _legendre() -> tuple[Float[np.ndarray, " t"], Float[np.ndarray, " t"]]:
    nodes, weights = np.polynomial.legendre.leggauss(200)
    return nodes, weights


def _normal_moments(shift_a: float, shift_b: float, spread_a: float, spread_b: float) -> tuple[float, float]:
    """(E Delta, E Delta^2) for normal half means minus the kink, by Gauss-Legendre quadrature."""
    nodes, weights = _legendre()
    top = 12.0 * max(spread_a, spread_b)
    t, w = 0.5 * top * (nodes + 1.0), 0.5 * top * weights
    mean = second = 0.0
    for (a, sa), (b, sb) in (
        ((shift_a, spread_a), (shift_b, spread_b)),
        ((shift_b, spread_b), (shift_a, spread_a)),
    ):
        product = ndtr((a - t) / sa) * ndtr((-b - t) / sb)
        mean -= 0.5 * float(w @ product)
        second += 0.5 * float(w @ (t * product))
    return mean, second
