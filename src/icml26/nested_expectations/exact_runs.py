"""Exact runs: quantum estimators level by level, without sampling. Errors in units of the problem's scale."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pandas as pd

from icml26 import lab
from icml26.nested_expectations.emulator import NestedQAE, growing_M0
from icml26.nested_expectations.problems import RNE, LatticeBermudan
from icml26.nested_expectations.qae import median_law, outcome_law
from icml26.nested_expectations.read_variance import read_variance
from icml26.nested_expectations.sizes import Settings

WINDOWS = (("flat, one run", "flat", 1), ("flat, median of 5", "flat", 5), ("cosine, one run", "cosine", 1))


def error_of(law: tuple[np.ndarray, np.ndarray], target: float) -> tuple[float, float]:
    """(RMSE, bias) of an estimate with the given values and probabilities."""
    values, probs = law
    deviation = values - target
    return math.sqrt(float(probs @ deviation**2)), float(probs @ deviation)


def windows(chosen: Settings, seeds: int = 0) -> pd.DataFrame:
    """RMSE of one amplitude estimation by window and phase states M, for a grid of amplitudes and a = 0.1."""
    amplitudes = np.append((np.arange(32) + 0.5) / 32, 0.1)
    rows = []
    for name, window, runs in WINDOWS:
        for bits in range(3, chosen.window_bits + 1):
            values, probs = outcome_law(amplitudes, 2**bits, window)
            if runs > 1:
                values, probs = median_law(values, probs, runs)
            square = (probs * (values - amplitudes[:, None]) ** 2).sum(axis=1)
            rows.append(
                {
                    "method": name,
                    "M": 2**bits,
                    "queries": runs * (2 ** (bits + 1) - 1),
                    "rmse_tenth": float(np.sqrt(square[-1])),
                    "rmse_mean": float(np.sqrt(square[:-1].mean())),
                    "rmse_worst": float(np.sqrt(square[:-1].max())),
                }
            )
    return pd.DataFrame(rows)


def constructions() -> dict[str, dict[str, Any]]:
    """The quantum estimators compared, as arguments of the emulator."""
    return {
        "direct": {"telescoping": False},
        "clip": {},
        "clip, c = 0.75": {"c": 0.75},
        "clip, M0 = 32": {"M0": 32},
        "clip, M0 = 32, c = 0.75": {"M0": 32, "c": 0.75},
        "clip, M0 = 64": {"M0": 64},
        "clip, growing M0": {"M0": growing_M0()},
        "dyadic": {"mean": "dyadic"},
        "dyadic, flat, median of 5": {"mean": "dyadic", "window": "flat", "repeats": 5},
        "dyadic, flat, median of 5, M0 = 8": {"mean": "dyadic", "window": "flat", "repeats": 5, "M0": 8},
    }


def exact_curve(problem: RNE, method: str, levels: int, bits: int, device: str = "cpu") -> pd.DataFrame:
    """Cost, RMSE and bias of one construction, level by level, from exact laws; stops where the register is coarse.

    Columns: method, depth, level, bits, cost, rmse, bias (errors in units of the scale).
    """
    emulator = NestedQAE(problem, grid_bits=bits, device=device, **constructions()[method])
    rows: list[dict[str, Any]] = []
    for level in range(levels + 1):
        try:
            rmse, bias = error_of(emulator.law(level), emulator.target)
        except ValueError:  # the clip window is finer than the register
            break
        if not emulator.resolved(rmse):
            break
        rows.append(
            {
                "method": method,
                "depth": problem.depth,
                "level": level,
                "bits": bits,
                "cost": emulator.cost(level),
                "rmse": rmse / problem.scale,
                "bias": bias / problem.scale,
            }
        )
    return pd.DataFrame(rows)


def exact(chosen: Settings, seeds: int = 0) -> pd.DataFrame:
    """RMSE against cost of the quantum constructions at D = 1, 2, 3, of the floor, and of the register run live.

    The settings of the clip are varied at D = 2 only. The floor is plain amplitude estimation of the outer mean, as
    if all inner ones were known.
    """
    parts = []
    device = str(lab.profile.current().device)
    for depth, levels, bits in zip((1, 2, 3), chosen.levels, chosen.bits, strict=True):
        problem = LatticeBermudan(dates=depth, qubits=chosen.qubits)
        for method in constructions():
            # All constructions are one amplitude estimation at D = 1.
            if (depth == 1 and method != "clip") or (depth == 3 and method.startswith("clip,")):
                continue
            # Shells cost a convolution a node and level, and show what they have to show on a smaller register.
            small = 3 if method.startswith("dyadic") else 0
            parts.append(exact_curve(problem, method, levels - small, bits - small, device))
        parts.append(floor_curve(problem, levels))
    parts.append(live_curve())
    return pd.concat(parts, ignore_index=True)


def floor_curve(problem: RNE, levels: int) -> pd.DataFrame:
    """The columns of `exact_curve` for plain amplitude estimation of the collapsed, one-step problem."""
    target = float(problem.exact()[0][0]) / problem.scale
    rows: list[dict[str, Any]] = []
    for level in range(levels + 1):
        M = 16 * 2**level
        rmse, bias = error_of(outcome_law(target, M, "cosine"), target)
        rows.append({"level": level, "bits": 0, "cost": 2 * M - 1, "rmse": rmse, "bias": bias})
    return pd.DataFrame(rows).assign(method="floor", depth=problem.depth)


def live_curve() -> pd.DataFrame:
    """The part of `exact` that the notebook runs again: D = 2, clip, a register of 14 bits."""
    return exact_curve(LatticeBermudan(), "clip", 8, 14)


def sensitivity(chosen: Settings, seeds: int = 0) -> pd.DataFrame:
    """Error and bias of the clipped estimator (D = 2) over the smallest M and the width of the clip window."""
    levels, bits = min(10, chosen.levels[1]), min(17, chosen.bits[1])
    problem = LatticeBermudan(qubits=chosen.qubits)
    rows = []
    for M0, c in itertools.product((4, 8, 16, 32, 64), (0.25, 0.5, 1.0)):
        emulator = NestedQAE(problem, M0=M0, c=c, grid_bits=bits)
        for level in range(levels + 1):
            rmse, bias = error_of(emulator.law(level), emulator.target)
            rows.append(
                {
                    "M0": M0,
                    "c": c,
                    "level": level,
                    "cost": emulator.cost(level),
                    "rmse": rmse / problem.scale,
                    "bias": bias / problem.scale,
                }
            )
    return pd.DataFrame(rows)


def variable_time(chosen: Settings, seeds: int = 0) -> pd.DataFrame:
    """Why a random level is fatal: READ cut off at level B inside amplitude estimation (D = 2).

    The bias is what the levels above B would have added, averaged over 31 strikes, which stand in for a continuous
    state: on one lattice a node near its kink, and then the lattice's end, bend the law. M is the smallest whose
    estimation error is no larger than the bias. A coherent call pays for the longest branch, 1 + 2^B draws, although
    the mean cost is a constant. Payoffs are taken to fit the scale, which is generous to READ: its weights 1/p_n grow.
    """
    r = 0.6
    strikes = [LatticeBermudan(strike=float(strike), qubits=4) for strike in np.linspace(37.0, 43.0, 31)]
    target = float(np.mean([put.exact()[0][0] / put.scale for put in strikes]))
    moments = np.mean(
        [read_variance(put, r, levels=24, atoms=3000).first_moment / put.scale for put in strikes], axis=0
    )
    rows = []
    for B in range(5, 14):
        bias = abs(float(moments[B + 1 :].sum()))
        M, error = 4, math.inf
        while error > bias:
            M *= 2
            error, _ = error_of(outcome_law(target, M, "cosine"), target)
        mean = sum(r * (1 - r) ** n * (1 + 2**n) for n in range(B)) + (1 - r) ** B * (1 + 2**B)
        rows.append(
            {
                "B": B,
                "bias": bias,
                "M": M,
                "rmse": math.hypot(bias, error),
                "cost_longest_branch": float((2 * M - 1) * (1 + 2**B)),
                "cost_if_mean_counted": float((2 * M - 1) * mean),
            }
        )
    return pd.DataFrame(rows)
