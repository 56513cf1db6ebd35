"""The finite checks behind the claims that are theorems, and the circuits that are compared with the emulator.

A theorem about all eps cannot be run. What can be: the identities its argument uses, on instances small enough to
be exact. Each function returns what it measured; the notebook states the tolerance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.linalg import eigvalsh_tridiagonal

from icml26.nested_expectations.classical import mlmc_derandomised, read
from icml26.nested_expectations.coherent import NestedCircuit, correction, direct
from icml26.nested_expectations.emulator import NestedQAE
from icml26.nested_expectations.problems import LatticeBermudan, TreeRNE
from icml26.nested_expectations.qae import median_law, outcome_law, window_amplitudes

__all__ = [
    "CASES",
    "Case",
    "chance_of_a_miss",
    "circuit_row",
    "circuit_rows",
    "constant_answers",
    "constant_tree",
    "corrections_only",
    "smallest_phase_error",
    "telescoping_gap",
]


@dataclass(frozen=True)
class Case:
    """One coherent circuit: phase states outside, M0 inside, and which correction (None: direct nesting).

    The cosine window with two states tells nothing (its law is uniform whatever the amplitude is), so M0 = 2 goes
    with the flat window. The clip differs from mere saturation of the outer amplitude from p = 2 on.
    """

    outer: int
    M0: int
    p: int | None
    window: str = "cosine"
    qubits_per_step: int = 1

    @property
    def name(self) -> str:
        """In words, for tables and sentences."""
        what = "direct nesting" if self.p is None else f"correction p = {self.p}"
        return f"{what}, M = {self.outer} over M0 = {self.M0}, {self.window}, {2**self.qubits_per_step} outcomes a step"


CASES = (
    Case(outer=8, M0=4, p=None),
    Case(outer=8, M0=8, p=None),
    Case(outer=8, M0=4, p=0),
    Case(outer=8, M0=2, p=1, window="flat"),
    Case(outer=8, M0=4, p=1),
    Case(outer=4, M0=4, p=1, qubits_per_step=2),
    Case(outer=4, M0=2, p=2, window="flat"),
)

"""Circuits of 9 to 16 qubits: seconds each."""

LARGE_CASES = (
    Case(outer=8, M0=4, p=1, qubits_per_step=2),
    Case(outer=8, M0=4, p=2),
    Case(outer=8, M0=8, p=2),
)
"""Circuits of 17 to 23 qubits, for the larger profiles."""


def circuit_row(case: Case, grid_bits: int = 22) -> dict[str, str | int | float]:
    """Run one circuit on a state-vector simulator; compare its law and its queries with the emulator's.

    Returns the case's name, qubits, gates on the tape, queries counted off the tape, the cost model's number,
    and the largest difference between the two outcome laws.
    """
    problem = LatticeBermudan(dates=2, qubits=case.qubits_per_step)
    term = direct(case.outer, case.M0) if case.p is None else correction(case.p, case.outer, case.M0)
    circuit = NestedCircuit(problem, term, case.window)
    _, law = circuit.law()
    emulator = NestedQAE(problem, M0=case.M0, window=case.window, grid_bits=grid_bits, telescoping=case.p is not None)
    amplitude = emulator.amplitude(case.p or 0)
    _, expected = outcome_law(amplitude, case.outer, case.window)
    return {
        "circuit": case.name,
        "qubits": circuit.qubits,
        "operations": len(circuit.tape.operations),
        "queries_on_tape": circuit.queries(),
        "queries_by_model": term.queries,
        "law_difference": float(np.abs(law - expected).max()),
    }


def circuit_rows(large: bool = False) -> list[dict[str, str | int | float]]:
    """`circuit_row` of every case, of the large ones too if asked for."""
    return [circuit_row(case) for case in (CASES + LARGE_CASES if large else CASES)]


def telescoping_gap(grid_bits: int = 10, level: int = 4) -> float:
    """Largest difference between E C(p) and the mean of the clipped chain by brute force over atoms.

    The brute force walks the chain's atoms one by one (no cumulative sums) on the put with D = 2, and adds up the
    means of the differences: their sum must be the mean of the last chain value.
    """
    problem = LatticeBermudan()
    emulator = NestedQAE(problem, M0=4, grid_bits=grid_bits)
    fast = emulator.chain_means(1, level)
    steps = emulator.points - 1
    grid = np.arange(steps + 1)
    worst = 0.0
    for node in range(problem.size(1)):
        chain = emulator.law_at(1, 0)[node]
        total = float(chain @ grid) / steps
        worst = max(worst, abs(total - fast[0, node]))
        for p in range(1, level + 1):
            radius = int(0.5 * steps / 2**p)
            fresh = emulator.law_at(1, p)[node]
            after = np.zeros(steps + 1)
            for atom in np.flatnonzero(chain):
                clipped = np.clip(grid, atom - radius, atom + radius)
                np.add.at(after, np.clip(clipped, 0, steps), chain[atom] * fresh)
                total += float(chain[atom] * (fresh @ (clipped - atom))) / steps
            chain = after
            worst = max(worst, abs(total - fast[p, node]))
    return worst


def smallest_phase_error(states: int) -> tuple[float, float]:
    """Root of E[2 - 2 cos(error)] of phase estimation with M `states`: (least over all windows, cosine window).

    For a window w it is 2 - 2 sum_k w_k w_(k+1), whose least value over unit vectors is the smallest eigenvalue of a
    tridiagonal matrix, 2 - 2 cos(pi / (M + 1)): no window makes the error smaller than order 1/M.
    """
    least = float(
        eigvalsh_tridiagonal(np.full(states, 2.0), np.full(states - 1, -1.0), select="i", select_range=(0, 0))[0]
    )
    w = window_amplitudes(states, "cosine")
    # The error is periodic: the last amplitude has no partner.
    return float(np.sqrt(least)), float(np.sqrt(2.0 - 2.0 * (w[:-1] @ w[1:])))


def chance_of_a_miss(M: int, runs: int = 1, reach: float = 0.25) -> float:
    """Largest chance, over 64 amplitudes, that a cosine estimate (the median of `runs`) is off by more than `reach`.

    This is what makes an estimate leave its clip window. It falls like a power of M for a single run, and
    geometrically in the number of runs for a median.
    """
    amplitude = (np.arange(64) + 0.5) / 64
    values, probs = outcome_law(amplitude, M, "cosine")
    if runs > 1:
        values, probs = median_law(values, probs, runs)
    return float((probs * (np.abs(values - amplitude[:, None]) > reach)).sum(axis=1).max())


def constant_tree(value: float = 1.0, depth: int = 2) -> TreeRNE:
    """A payoff that is the same everywhere, with identity links: what a missing base term gets wrong."""
    laws = [(np.zeros((1, 2), dtype=np.int64), np.full((1, 2), 0.5))] * depth
    return TreeRNE(laws, np.array([value]))


def constant_answers(depth: int = 2) -> dict[str, float]:
    """What each method says of a payoff that is 1 everywhere (the truth is 1)."""
    problem = constant_tree(depth=depth)
    rng = np.random.default_rng(0)
    flat = NestedQAE(problem, window="flat", grid_bits=12)
    values, probs = flat.law(3)
    return {
        "READ": read(problem, 100, rng).mean,
        "derandomised MLMC": mlmc_derandomised(problem, 100, rng).value,
        "nested amplitude estimation, flat window": float(values @ probs),
    }


def corrections_only(problem: LatticeBermudan, level: int = 5, grid_bits: int = 14) -> Float[np.ndarray, 2]:
    """(sum of all terms, sum without the base term) of the outer means, in units of the scale, exact inner laws."""
    emulator = NestedQAE(problem, grid_bits=grid_bits)
    child, law = problem.children(0, np.zeros(1, dtype=np.int64))
    chain = emulator.chain_means(1, level)
    means = (law[0] * chain[:, child[0]]).sum(axis=1)
    return np.array([means[-1], means[-1] - means[0]])
