"""The coherent nested circuit: estimates inside the superposition of an outer estimate.

An outer estimation of E[γ_{d+1} | y] needs an algorithm whose flag has that mean. Here it is built whole:
the sampler loads y, one or more inner estimations write their phases next to it, and one look-up rotation
controlled on the path and on all inner phases puts the value on the outer flag.

* Direct nesting: one inner estimate, its value on the flag.
* The telescoped correction p ≥ 1 (paper 2602.08120; the circuit is our reconstruction): the estimates
  Est(0) … Est(p) stand side by side, Ẽ(q) = clip(Est(q), Ẽ(q−1) ± c·2^{-q}), and the flag has probability
  (Δ_p + R_p)/(2R_p) with Δ_p = Ẽ(p) − Ẽ(p−1) and R_p = c·2^{-p}.

The inner registers stay as garbage. That is legitimate: the flag's probability is the mean over everything
else, entangled or not, and the Grover operator inverts the whole of A, the inner estimation included. This
inversion is where each level of nesting gets its factor 2.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from icml26.nested_expectations.circuits import (
    Operator,
    Preparation,
    QuantumScript,
    Sampler,
    amplitude_estimation,
    count_queries,
    fold,
    phase_tape,
    run_probs,
    table_rotation,
)
from icml26.nested_expectations.qae import outcome_law, window_amplitudes

__all__ = ["Estimation", "NestedCircuit", "Term", "collapsed", "correction", "direct", "schedule"]


@dataclass(frozen=True)
class Term:
    """One amplitude estimation with `states` phase states; `chain` holds the inner Est(0) … Est(p).

    An empty chain: the mean of the terminal value, no nesting.
    """

    states: int
    chain: tuple["Estimation", ...] = ()

    def __post_init__(self) -> None:
        window_amplitudes(self.states, "flat")  # raises unless a power of two

    @property
    def queries(self) -> int:
        """(2M − 1)(1 + Σ T(inner)): sampler applications of one run, exact."""
        return (2 * self.states - 1) * (1 + sum(inner.queries for inner in self.chain))

    def qubits(self, step: int) -> int:
        """Qubits of its circuit when a step takes `step` of them: step, flag and phase register, and all inner ones.

        Inner registers are garbage until the whole is undone, so they add up. Ancillas of the gates come on top.
        """
        inner = sum(term.qubits(step) for estimation in self.chain for term in estimation.terms)
        return step + 1 + self.states.bit_length() - 1 + inner


@dataclass(frozen=True)
class Estimation:
    """An estimate g(y, Σ_p mean_p) from independent terms; a chain of length p + 1 makes mean_p."""

    terms: tuple[Term, ...]

    @property
    def queries(self) -> int:
        return sum(term.queries for term in self.terms)


def direct(*states: int) -> Term:
    """Direct nesting, outermost first: direct(8, 4) estimates with M = 8 the mean of estimates with M = 4."""
    if not states:
        raise ValueError("states must name at least one M, got none")
    outer, *inner = states
    return Term(outer, (Estimation((direct(*inner),)),) if inner else ())


def schedule(depth: int, level: int, M0: int) -> Estimation:
    """The derandomised estimate Est(level) of a mean over `depth` expectations.

    Depth 1: one estimation with M₀2^ℓ states. Else the terms p = 0 … ℓ, with M₀2^{ℓ−p} states and the
    chain Est(0) … Est(p) one date further.
    """
    if depth < 1 or level < 0:
        raise ValueError(f"depth must be at least 1 and level at least 0, got {depth} and {level}")
    if depth == 1:
        return Estimation((Term(M0 * 2**level),))
    inner = [schedule(depth - 1, q, M0) for q in range(level + 1)]
    return Estimation(tuple(Term(M0 * 2 ** (level - p), tuple(inner[: p + 1])) for p in range(level + 1)))


def correction(p: int, states: int, M0: int) -> Term:
    """The telescoped correction Δ_p of a two-date problem: `states` outside, M₀2^q for q = 0 … p inside."""
    if p < 0:
        raise ValueError(f"p must be at least 0, got {p}")
    return Term(states, tuple(schedule(1, q, M0) for q in range(p + 1)))


def _radius(p: int, c: float) -> float:
    return c * 2.0**-p


class NestedCircuit:
    """The circuit of one outermost term for a repeatedly nested expectation.

    Args:
        problem: an `RNE` (see `problems`), whose `depth` the term's nesting must match.
        term: what to run, from `direct`, `correction` or one of `schedule(depth, level, M0).terms`.
        window: "flat" or "cosine", for all registers.
        c: width of the clip window, R_p = c·2^{-p} in units of the problem's scale.

    A sum of corrections may leave [0, 1]; it saturates there before the link is applied (the true mean lies
    inside, so this adds no error). A link value outside [0, scale] is an error.

    Raises:
        ValueError: term and depth disagree, a node has more than 2^qubits children, payoffs outside
            [0, scale], c outside (0, 1], unknown window.
    """

    def __init__(self, problem: Any, term: Term, window: str = "cosine", c: float = 0.5):
        window_amplitudes(2, window)
        if not 0.0 < c <= 1.0:
            raise ValueError(f"c must lie in (0, 1], got {c}")
        self.problem, self.term, self.window, self.c = problem, term, window, c
        self._fresh: Iterator[int] = count()
        self.preparation = self._mean(term, 0, (), np.zeros(1, dtype=np.int64))

    def _register(self, qubits: int) -> tuple[int, ...]:
        return tuple(next(self._fresh) for _ in range(qubits))

    def _step(
        self, date: int, nodes: Int[np.ndarray, "n"]
    ) -> tuple[Int[np.ndarray, "n k"], Float[np.ndarray, "n k"]]:
        """Children and law of every path, padded to 2^q outcomes with children of probability 0."""
        child, law = self.problem.children(date, nodes)
        missing = 2**self.problem.qubits - child.shape[1]
        if missing < 0:
            raise ValueError(
                f"problem has {child.shape[1]} children at date {date}, but {self.problem.qubits} qubits "
                f"hold {2**self.problem.qubits}"
            )
        return np.pad(child, ((0, 0), (0, missing)), mode="edge"), np.pad(law, ((0, 0), (0, missing)))

    def _unit(self, value: Float[np.ndarray, "*n"], what: str) -> Float[np.ndarray, "*n"]:
        unit = value / self.problem.scale
        if not np.all((unit >= -1e-12) & (unit <= 1 + 1e-12)):
            raise ValueError(
                f"problem: {what} must lie in [0, {self.problem.scale}], got {value.min()}…{value.max()}"
            )
        return np.asarray(np.clip(unit, 0.0, 1.0))  # rounding only

    def _mean(self, term: Term, date: int, path: tuple[int, ...], nodes: Int[np.ndarray, "n"]) -> Preparation:
        """A whose flag has the mean of γ_{date+1}, or of Δ_p, given the path; `nodes`: each path's node."""
        child, law = self._step(date, nodes)
        register = self._register(self.problem.qubits)
        ops: list[Operator] = [Sampler(law, path, register)]
        written, controls = list(register), [*path, *register]
        after = child.reshape(-1)
        last = date + 1 == self.problem.depth
        if last == bool(term.chain):
            raise ValueError(
                f"term must nest {self.problem.depth} means deep, as the problem does; it does not"
            )
        if last:
            flag_probs = self._unit(self.problem.value(after), "value")
        else:
            tables = []
            for inner in term.chain:
                more, wires, phases, table = self._estimation(
                    inner, date + 1, tuple(controls[: len(path) + len(register)]), after
                )
                ops += more
                written += wires
                controls += phases
                tables.append(table)
            flag_probs = self._chain_probs(tables).reshape(-1)
        (flag,) = self._register(1)
        ops += table_rotation(flag_probs, controls, flag)
        return Preparation(tuple(ops), (*written, flag), flag)

    def _estimation(
        self, plan: Estimation, date: int, path: tuple[int, ...], nodes: Int[np.ndarray, "n"]
    ) -> tuple[list[Operator], list[int], list[int], Float[np.ndarray, "n m"]]:
        """Est_date for every path: operators, written wires, phase wires, and value by (path, phases)."""
        ops: list[Operator] = []
        written: list[int] = []
        phases: list[int] = []
        total = np.zeros((1,))
        for term in plan.terms:
            A = self._mean(term, date, path, nodes)
            phase = self._register(term.states.bit_length() - 1)
            ops += amplitude_estimation(A, phase, self.window)
            written += [*A.wires, *phase]
            phases += phase
            total = np.add.outer(
                total, self.decode(term, np.sin(np.pi * np.arange(term.states) / term.states) ** 2)
            ).reshape(-1)
        mean = np.clip(total, 0.0, 1.0) * self.problem.scale
        at, estimate = (grid.reshape(-1) for grid in np.meshgrid(nodes, mean, indexing="ij"))
        value = self._unit(self.problem.link(date, at, estimate), "link")
        return ops, written, phases, value.reshape(len(nodes), len(mean))

    def _chain_probs(self, tables: Sequence[Float[np.ndarray, "n _"]]) -> Float[np.ndarray, "n ..."]:
        """The flag's probability for every path and every value of all inner phases: the clipped chain."""
        paths = len(tables[0])
        aligned = [
            table.reshape((paths, *(table.shape[1] if q == p else 1 for q in range(len(tables)))))
            for p, table in enumerate(tables)
        ]
        coarse = fine = aligned[0]
        for p, estimate in enumerate(aligned[1:], start=1):
            r = _radius(p, self.c)
            coarse, fine = fine, np.clip(estimate, fine - r, fine + r)
        if len(tables) == 1:
            return fine
        r = _radius(len(tables) - 1, self.c)
        return np.asarray(np.clip((fine - coarse + r) / (2 * r), 0.0, 1.0))  # rounding only: |Δ| ≤ r surely

    def decode(self, term: Term, amplitude: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        """From the flag's probability back to the term's mean: Δ_p = R_p(2a − 1) for p ≥ 1."""
        if len(term.chain) < 2:
            return amplitude
        return np.asarray(_radius(len(term.chain) - 1, self.c) * (2 * amplitude - 1))

    @cached_property
    def tape(self) -> QuantumScript:
        """The whole circuit; measures the outer phase register."""
        return phase_tape(self.preparation, self.term.states, self.window)

    @property
    def qubits(self) -> int:
        return len(self.tape.wires)

    def queries(self) -> int:
        """Sampler applications, counted on the tape (compare `term.queries`, the cost model)."""
        return count_queries(self.tape)

    def law(self, device: str = "lightning.qubit") -> tuple[Float[np.ndarray, "m"], Float[np.ndarray, "m"]]:
        """Runs the circuit: values of the term's mean, in units of the scale, and their probabilities."""
        M = self.term.states
        values = np.sin(np.pi * np.arange(M // 2 + 1) / M) ** 2
        return self.decode(self.term, values), np.asarray(fold(run_probs(self.tape, device)))


def collapsed(
    problem: Any, M: int, window: str = "cosine"
) -> tuple[Float[np.ndarray, "m"], Float[np.ndarray, "m"], int]:
    """The floor: plain estimation of E[γ_1] if γ_1 were a free look-up table (all inner means known).

    Returns values [M/2 + 1] in units of the scale, their probabilities, and the 2M − 1 queries.
    """
    values, probs = outcome_law(float(problem.exact()[0][0]) / problem.scale, M, window)
    return values, probs, 2 * M - 1
