"""The exercises of the lesson, with checks, hints and wrong answers that the checks must refuse."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from icml26.lab.check import Exercise
from icml26.nested_expectations.coherent import schedule
from icml26.nested_expectations.qae import ExactOracle, mlae

KINKED = (0.5, 1.0 - 2.0**-1.5)
SMOOTH = (0.5, 0.75)


def _is_function(answer: Any) -> bool:
    return callable(answer)


def _counts_like_the_tape(answer: Callable[[int], int]) -> str | None:
    """Against circuits built and counted on the spot."""
    from icml26.nested_expectations.circuits import count_queries, mean_preparation, phase_tape

    preparation = mean_preparation(np.array([0.3, 0.7]), np.array([0.2, 0.9]))
    for M in (2, 4, 8, 16, 32):
        counted = count_queries(phase_tape(preparation, M))
        if answer(M) != counted:
            return f"for M = {M} the tape holds {counted} samplers, you say {answer(M)}"
    return None


def _interval(found: Any, truth: tuple[float, float]) -> bool:
    return len(found) == 2 and all(math.isclose(x, y, abs_tol=5e-4) for x, y in zip(found, truth, strict=True))


def _likelihood_cases() -> list[tuple[list[int], int, list[int], float]]:
    """Counts drawn once, with the estimate of the tested implementation."""

    class Recorded(ExactOracle):
        """Remembers what it was asked for."""

        def __init__(self, a: float, seed: int):
            super().__init__(a, np.random.default_rng(seed))
            self.seen: list[int] = []

        def flag_counts(self, power: int, shots: int) -> int:
            self.seen.append(super().flag_counts(power, shots))
            return self.seen[-1]

    cases = []
    for a, powers, shots, seed in (
        (0.3, [0, 1, 2, 4], 200, 0),
        (0.72, [0, 1, 2, 4, 8], 100, 1),
        (0.05, [0, 2, 6], 300, 2),
        (0.4, [0, 1], 20, 3),
        (0.15, [0, 1], 20, 4),
    ):
        oracle = Recorded(a, seed)
        estimate = mlae(oracle, powers, shots).estimate
        cases.append((oracle.seen, shots, powers, estimate))
    return cases


def _maximises(answer: Callable[[Sequence[int], int, Sequence[int]], float]) -> str | None:
    for ones, shots, powers, expected in _likelihood_cases():
        found = answer(ones, shots, powers)
        if not abs(found - expected) < 2e-3:
            case = f"ones = {ones} of {shots} at powers {powers}"
            return f"for {case} the likelihood peaks at {expected:.4f}, you say {found:.4f}"
    return None


def _plain_fraction(answer: Callable[[Sequence[int], int, Sequence[int]], float]) -> bool:
    return abs(answer([30], 100, [0]) - 0.3) < 2e-3


def _costs(answer: Callable[[int, int, int], int]) -> str | None:
    for depth, level, M0 in ((2, 1, 2), (2, 3, 16), (3, 2, 4), (3, 4, 16)):
        expected = schedule(depth, level, M0).queries
        if answer(depth, level, M0) != expected:
            return f"depth {depth}, level {level}, M0 {M0}: {expected}, not {answer(depth, level, M0)}"
    return None


def _without_own_sampler(depth: int, level: int, M0: int) -> int:
    if depth == 1:
        return int(2 * M0 * 2**level - 1)
    return sum(
        (2 * M0 * 2 ** (level - p) - 1) * sum(_without_own_sampler(depth - 1, q, M0) for q in range(p + 1))
        for p in range(level + 1)
    )


def _only_the_finest(depth: int, level: int, M0: int) -> int:
    if depth == 1:
        return int(2 * M0 * 2**level - 1)
    return sum((2 * M0 * 2 ** (level - p) - 1) * (1 + _only_the_finest(depth - 1, p, M0)) for p in range(level + 1))


EXERCISES = {
    "queries": Exercise(
        id="queries",
        title="What one run costs",
        tests=[
            ("`queries` is a function", _is_function),
            ("it is 3 for M = 2", lambda answer: answer(2) == 3),
            ("it counts what stands on the tape", _counts_like_the_tape),
        ],
        hints=[
            "define `queries(M)`",
            "with M = 2 there is one controlled Q between the first A and the end; Q holds an A† and an A",
            "M − 1 controlled Q, two applications each, and the first A",
        ],
        wrong={"only the Q": lambda M: 2 * (M - 1), "forgot A†": lambda M: M, "one Q too many": lambda M: 2 * M + 1},
    ),
    "levels": Exercise(
        id="levels",
        title="Which r are allowed",
        tests=[
            ("the answer is a pair of pairs", lambda answer: [len(pair) for pair in answer] == [2, 2]),
            (
                "the lower ends keep the mean cost finite",
                lambda answer: all(abs(pair[0] - 0.5) < 5e-4 for pair in answer),
            ),
            ("the kinked link has its upper end", lambda answer: _interval(answer[0], KINKED)),
            ("the smooth link has its upper end", lambda answer: _interval(answer[1], SMOOTH)),
        ],
        hints=[
            "assign ((low, high), (low, high)): first for max, then for a smooth link",
            "the mean cost is a sum of r (1 − r)ⁿ 2ⁿ: when does it converge?",
            "the variance is a sum of 2^(−3n/2) / (r (1 − r)ⁿ)",
            "a smooth link makes Δₙ of order 2⁻ⁿ, so E Δₙ² falls like 2^(−2n)",
        ],
        wrong={
            "no upper end": ((0.5, 1.0), (0.5, 1.0)),
            "kinked twice": (KINKED, KINKED),
            "for 1 − r": ((2.0**-1.5, 0.5), (0.25, 0.5)),
        },
    ),
    "likelihood": Exercise(
        id="likelihood",
        title="Amplitude estimation by maximum likelihood",
        tests=[
            ("`estimate` is a function", _is_function),
            ("with power 0 alone it is the plain fraction of ones", _plain_fraction),
            ("it is where the likelihood is largest", _maximises),
        ],
        hints=[
            "define `estimate(ones, shots, powers)`",
            "P(flag = 1) after Q^m A is sin²((2m + 1)θ); for m = 0 that is a itself",
            "add the log likelihoods of all powers on a fine grid of θ in (0, π/2) and take the best",
        ],
        wrong={
            "fraction of all ones": lambda ones, shots, powers: sum(ones) / (shots * len(ones)),
            "first power only": lambda ones, shots, powers: ones[0] / shots,
            "one constant": lambda ones, shots, powers: 0.3,
        },
    ),
    "schedule": Exercise(
        id="schedule",
        title="The fixed cost of the telescoped estimator",
        tests=[
            ("`cost` is a function", _is_function),
            ("one date is one estimation", lambda answer: answer(1, 3, 16) == 255),
            ("two and three dates follow the recursion", _costs),
        ],
        hints=[
            "define `cost(depth, level, M0)`",
            "depth 1: M = M0 · 2^level states, 2M − 1 queries",
            "term p runs 2 M0 2^(level−p) − 1 times: one own sampler and the inner estimates 0..p each time",
        ],
        wrong={"forgot the own sampler": _without_own_sampler, "finest estimate only": _only_the_finest},
    ),
}
