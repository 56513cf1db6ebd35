"""What the chapter measures: frozen settings for each profile, and the committed tables.

    python -m icml26.nested_expectations.experiment --table exact --seeds 5

Tables of exact laws need no seeds. `sampled` holds single errors of independent repetitions (forty seeds, so that
slopes have intervals). All errors are in units of the problem's scale, all costs in one-step samplers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from icml26 import lab
from icml26.nested_expectations import classical, peers
from icml26.nested_expectations.emulator import NestedQAE, growing_M0
from icml26.nested_expectations.problems import RNE, LatticeBermudan, TwoStageTrial, sp500_put
from icml26.nested_expectations.qae import median_law, outcome_law
from icml26.nested_expectations.read_torch import read_on_device
from icml26.nested_expectations.read_variance import read_variance

PACKAGE = "icml26.nested_expectations"
WINDOWS = (("flat, one run", "flat", 1), ("flat, median of 5", "flat", 5), ("cosine, one run", "cosine", 1))


@dataclass(frozen=True)
class Settings:
    """Sizes of the experiments.

    levels, bits: for each depth D = 1, 2, 3, the last level of the emulator and its register.
    budgets: sampler draws of the classical methods. read_draws: READ draws for the cost tail.
    """

    levels: tuple[int, int, int]
    bits: tuple[int, int, int]
    budgets: tuple[int, ...]
    read_draws: int
    window_bits: int = 12
    qubits: int = 2


SETTINGS = {
    "cpu": Settings((14, 13, 9), (19, 19, 16), (1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20), 1_000_000),
    "gpu": Settings((15, 16, 11), (20, 20, 18), tuple(1 << k for k in range(12, 27, 2)), 100_000_000, 14),
    "paper": Settings((16, 17, 13), (21, 21, 20), tuple(1 << k for k in range(12, 31, 2)), 1_000_000_000, 16),
}
SMOKE = Settings((2, 2, 1), (8, 8, 8), (64, 128), 200, 4)


def settings() -> Settings:
    """The settings of the current profile."""
    return lab.profile.choose(SETTINGS, SMOKE)


def problems() -> dict[str, RNE]:
    """The problems of the chapter: textbook puts, a put on a real index, and one outside finance."""
    return {
        "put, volatility 0.4": LatticeBermudan(),
        "put, volatility 0.2": LatticeBermudan(volatility=0.2),
        "European put": LatticeBermudan().european(),
        "S&P 500 put": sp500_put(),
        "two-stage trial": TwoStageTrial(),
    }


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
        "clip, growing M0": {"M0": growing_M0()},
        "dyadic": {"mean": "dyadic"},
        "dyadic, flat, median of 5": {"mean": "dyadic", "window": "flat", "repeats": 5},
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
    """RMSE against cost of every quantum construction at D = 1, 2, 3, and of the small register run live."""
    parts = []
    device = str(lab.profile.current().device)
    for depth, levels, bits in zip((1, 2, 3), chosen.levels, chosen.bits, strict=True):
        problem = LatticeBermudan(dates=depth, qubits=chosen.qubits)
        for method in constructions():
            if depth == 1 and method != "clip":  # all constructions are one amplitude estimation there
                continue
            # Shells cost a convolution a node and level, and show what they have to show on a smaller register.
            small = 3 if method.startswith("dyadic") else 0
            parts.append(exact_curve(problem, method, levels - small, bits - small, device))
    parts.append(live_curve())
    return pd.concat(parts, ignore_index=True)


def live_curve() -> pd.DataFrame:
    """The part of `exact` that the notebook runs again: D = 2, clip, a register of 14 bits."""
    return exact_curve(LatticeBermudan(), "clip", 8, 14)


Sampler = Callable[[RNE, int, np.random.Generator], tuple[float, float]]


def _nested(problem: RNE, budget: int, rng: np.random.Generator) -> tuple[float, float]:
    found = classical.nested_mc(problem, classical.nested_mc_split(problem.depth, budget), rng)
    return found.value, found.cost


def _read(r: float) -> Sampler:
    def run(problem: RNE, budget: int, rng: np.random.Generator) -> tuple[float, float]:
        cost = classical.read_cost_mean(problem.depth, r)
        samples = max(2, round(budget / cost))
        profile = lab.profile.current()
        if profile.name == "cpu":
            return classical.read(problem, samples, rng, r).mean, samples * cost
        return read_on_device(problem, samples, int(rng.integers(2**31)), profile.device, r).mean, samples * cost

    return run


def _derandomised(problem: RNE, budget: int, rng: np.random.Generator) -> tuple[float, float]:
    samples = max(2, round(budget / classical.read_cost_mean(problem.depth)))
    found = classical.mlmc_derandomised(problem, samples, rng)
    return found.value, found.cost


def _regression(problem: RNE, budget: int, rng: np.random.Generator) -> tuple[float, float]:
    found = classical.longstaff_schwartz(problem, max(8, budget // (2 * problem.depth)), rng)
    return found.value, found.cost


CLASSICAL: dict[str, Sampler] = {
    "nested Monte Carlo": _nested,
    "READ, r = 0.6": _read(0.6),
    "READ, r = 0.55": _read(0.55),
    "derandomised MLMC": _derandomised,
    "Longstaff-Schwartz": _regression,
}


def sampled(chosen: Settings, seeds: int) -> pd.DataFrame:
    """Single errors of the classical methods: one row for each depth, method, budget and seed.

    READ's cost is its mean, not what the sample happened to cost: that mean is itself heavy-tailed.
    """
    rows = []
    for depth in (1, 2, 3):
        problem = LatticeBermudan(dates=depth, qubits=chosen.qubits)
        target = float(problem.exact()[0][0])
        for method, budget in itertools.product(CLASSICAL, chosen.budgets):
            for seed, rng in enumerate(lab.seed.spawn(depth, seeds)):
                value, cost = CLASSICAL[method](problem, budget, rng)
                rows.append(
                    {
                        "depth": depth,
                        "method": method,
                        "budget": budget,
                        "seed": seed,
                        "cost": float(cost),
                        "error": (value - target) / problem.scale,
                    }
                )
    return pd.DataFrame(rows)


def read_tail(chosen: Settings, seeds: int) -> pd.DataFrame:
    """P(cost of one READ draw > t) at powers of two for D = 2 and 3, and the largest cost seen."""
    rows = []
    for depth in (2, 3):
        problem = LatticeBermudan(dates=depth, qubits=chosen.qubits)
        draws = chosen.read_draws // seeds
        for seed, rng in enumerate(lab.seed.spawn(10 + depth, seeds)):
            costs = classical.read(problem, draws, rng).costs
            for t in 2 ** np.arange(1, 16):
                rows.append(
                    {
                        "depth": depth,
                        "seed": seed,
                        "draws": draws,
                        "t": int(t),
                        "tail": float((costs > t).mean()),
                        "mean_cost": float(costs.mean()),
                        "largest": int(costs.max()),
                    }
                )
    return pd.DataFrame(rows)


def read_spread(chosen: Settings, seeds: int) -> pd.DataFrame:
    """READ's cost times variance by r: true (D = 2, exact moments) and as a sample of 4e5 draws shows it."""
    problem = LatticeBermudan(qubits=chosen.qubits)
    rows = []
    for r in (0.52, 0.53, 0.54, 0.55, 0.56, 0.58, 0.6, 0.63, 0.7, 0.8):
        with np.errstate(all="ignore"), _quiet():
            truth = read_variance(problem, r)
            cost = classical.read_cost_mean(2, r)
            draws = min(400_000, chosen.read_draws)
            seen = [classical.read(problem, draws, rng, r).values.var(ddof=1) for rng in lab.seed.spawn(20, seeds)]
        rows.append(
            {
                "r": r,
                "mean_cost": cost,
                "true_cost_variance": cost * truth.variance / problem.scale**2,
                "sample_cost_variance": cost * float(np.mean(seen)) / problem.scale**2,
                "sample_low": cost * float(np.min(seen)) / problem.scale**2,
                "sample_high": cost * float(np.max(seen)) / problem.scale**2,
            }
        )
    return pd.DataFrame(rows)


def _quiet() -> Any:
    """Values of r with infinite variance are asked for on purpose here."""
    import warnings

    context = warnings.catch_warnings()
    warnings.simplefilter("ignore", RuntimeWarning)
    return context


def read_levels(chosen: Settings, seeds: int = 0) -> pd.DataFrame:
    """E Delta_n^2 of READ by level n (D = 2), averaged over the nodes of the first date, and the law 2^(-3n/2)."""
    problem = LatticeBermudan(qubits=chosen.qubits)
    found = read_variance(problem)
    level = np.arange(found.second_moment.size)[1:25]
    return pd.DataFrame(
        {
            "level": level,
            "second_moment": found.second_moment[1:25] / problem.scale**2,
            "exact": level <= found.exact_levels,
        }
    )


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


def applications(chosen: Settings, seeds: int) -> pd.DataFrame:
    """Every problem by every method at about one budget: exact value, cost, RMSE (scaled), seeds."""
    levels, bits = min(7, chosen.levels[1]), min(15, chosen.bits[1])
    rows = []
    for name, problem in problems().items():
        target = float(problem.exact()[0][0])
        fixed = {"problem": name, "scale": problem.scale, "exact": target}
        for method in ("direct", "clip"):
            curve = exact_curve(problem, method, levels, bits)
            last = curve.iloc[-1]
            rows.append(
                fixed | {"method": method, "cost": float(last["cost"]), "rmse": float(last["rmse"]), "seeds": 0}
            )
        budget = rows[-1]["cost"]
        for method, run in CLASSICAL.items():
            found = [run(problem, int(budget), rng) for rng in lab.seed.spawn(30, seeds)]
            errors = np.array([value - target for value, _ in found]) / problem.scale
            rows.append(
                fixed
                | {
                    "method": method,
                    "cost": float(np.mean([cost for _, cost in found])),
                    "rmse": float(np.sqrt((errors**2).mean())),
                    "seeds": seeds,
                }
            )
    return pd.DataFrame(rows)


def convergence(chosen: Settings, seeds: int = 0) -> pd.DataFrame:
    """Lattice values against QuantLib's finite differences: few dates, then fifty as in Longstaff and Schwartz."""
    rows = []
    for volatility, dates, qubits in itertools.product((0.2, 0.4), (1, 2, 3, 10, 50), (1, 2, 3, 5)):
        try:
            problem = LatticeBermudan(volatility=volatility, dates=dates, qubits=qubits)
        except ValueError:  # too few substeps: no risk-neutral probability
            continue
        rows.append(
            {
                "volatility": volatility,
                "dates": dates,
                "qubits": qubits,
                "substeps": dates * problem.substeps,
                "lattice": float(problem.exact()[0][0]),
                "quantlib": peers.quantlib_put(problem),
            }
        )
    return pd.DataFrame(rows)


def variable_time(chosen: Settings, seeds: int = 0) -> pd.DataFrame:
    """Why a random level is fatal: READ cut off at level B inside amplitude estimation (D = 2).

    The bias is what the levels above B would have added; M is the smallest whose estimation error is no larger
    than that. A coherent call pays for the longest branch, 1 + 2^B draws, although the mean is a constant.
    Payoffs are taken to fit the scale, which is generous to READ: its weights 1/p_n grow.
    """
    problem = LatticeBermudan(qubits=chosen.qubits)
    target = float(problem.exact()[0][0]) / problem.scale
    moments = read_variance(problem).first_moment / problem.scale
    rows = []
    for B in range(2, 13):
        bias = abs(float(moments[B + 1 :].sum()))
        M, error = 4, math.inf
        while error > bias:
            M *= 2
            error, _ = error_of(outcome_law(target, M, "cosine"), target)
        mean = sum(0.6 * 0.4**n * (1 + 2**n) for n in range(B)) + 0.4**B * (1 + 2**B)
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


def circuits(chosen: Settings, seeds: int = 0) -> pd.DataFrame:
    """Coherent circuits run on a state-vector simulator against the formula, with queries off the tape."""
    from icml26.nested_expectations.checks import circuit_rows

    return pd.DataFrame(circuit_rows())


def race(chosen: Settings, seeds: int) -> pd.DataFrame:
    """READ vectorised against one call a node; batched emulator against a loop over nodes."""
    problem = LatticeBermudan(dates=3, qubits=chosen.qubits)
    samples = 2_000
    reads = lab.race(
        {
            "READ, one call a node": lambda: classical.read_recursive(problem, samples, np.random.default_rng(0)),
            "READ, vectorised": lambda: classical.read(problem, samples, np.random.default_rng(0)),
        },
        reference="READ, one call a node",
        repeats=max(7, seeds),
    ).frame.assign(what="READ", size=samples)
    wide = LatticeBermudan(dates=3, qubits=3)
    loops = lab.race(
        {
            "emulator, node by node": lambda: NestedQAE(wide, grid_bits=10, chunk=1).law(3),
            "emulator, batched": lambda: NestedQAE(wide, grid_bits=10).law(3),
        },
        reference="emulator, node by node",
        repeats=max(7, seeds),
    ).frame.assign(what="emulator", size=10)
    sizes = [
        lab.race(
            {
                "emulator, b = 12": lambda: NestedQAE(LatticeBermudan(), grid_bits=12).law(6),
                f"emulator, b = {b}": lambda b=b: NestedQAE(LatticeBermudan(), grid_bits=b).law(6),
            },
            reference="emulator, b = 12",
            repeats=max(7, seeds),
        )
        .frame.iloc[1:]
        .assign(what="register", size=b)
        for b in range(13, 19)
    ]
    big = 400_000
    rate = lab.race(
        {
            "READ, 4e5 draws of depth 3": lambda: classical.read(problem, big, np.random.default_rng(0)),
            "READ, 4e4 draws of depth 3": lambda: classical.read(problem, big // 10, np.random.default_rng(0)),
        },
        reference="READ, 4e4 draws of depth 3",
        repeats=max(7, seeds),
    ).frame.assign(
        what="sampler",
        size=[int(classical.read(problem, n, np.random.default_rng(0)).costs.sum()) for n in (big, big // 10)],
    )
    return pd.concat([reads, loops, *sizes, rate], ignore_index=True)


TABLES: dict[str, Callable[[Settings, int], pd.DataFrame]] = {
    "windows": windows,
    "exact": exact,
    "sampled": sampled,
    "read_tail": read_tail,
    "read_spread": read_spread,
    "read_levels": read_levels,
    "sensitivity": sensitivity,
    "applications": applications,
    "convergence": convergence,
    "variable_time": variable_time,
    "circuits": circuits,
    "race": race,
}
DETERMINISTIC = ("windows", "exact", "read_levels", "sensitivity", "convergence", "variable_time", "circuits")
DEPENDS = tuple(
    f"{PACKAGE}.{name}"
    for name in (
        "problems",
        "qae",
        "emulator",
        "classical",
        "read_variance",
        "read_torch",
        "coherent",
        "circuits",
        "checks",
        "peers",
        "experiment",
    )
)


if __name__ == "__main__":
    lab.campaign(PACKAGE, TABLES, settings=SETTINGS["cpu"], depends=DEPENDS, deterministic=DETERMINISTIC)
