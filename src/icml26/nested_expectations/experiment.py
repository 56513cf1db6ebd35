"""What the chapter measures: frozen settings for each profile, and the committed tables.

    python -m icml26.nested_expectations.experiment --table exact --seeds 5

Tables of exact laws need no seeds. `sampled` holds single errors of independent repetitions (160 seeds, so that
slopes have intervals). All errors are in units of the problem's scale, all costs in one-step samplers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pandas as pd

from icml26 import lab
from icml26.nested_expectations import classical, peers
from icml26.nested_expectations.emulator import NestedQAE
from icml26.nested_expectations.exact_runs import (
    exact,
    exact_curve,
    sensitivity,
    variable_time,
    windows,
)
from icml26.nested_expectations.problems import RNE, LatticeBermudan, TwoStageTrial, sp500_put
from icml26.nested_expectations.read_variance import read_variance
from icml26.nested_expectations.sampled_runs import (
    CLASSICAL,
    estimators,
    mlmc_peer,
    read_levels,
    read_spread,
    read_tail,
    sampled,
)
from icml26.nested_expectations.sizes import SETTINGS, SMOKE, Settings

PACKAGE = "icml26.nested_expectations"


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


def applications(chosen: Settings, seeds: int) -> pd.DataFrame:
    """Every problem by every method at about the calls of the clipped estimator: exact value, cost, RMSE, seeds.

    Direct nesting stands at its last level that costs no more; READ also by its exact variance at the best r for
    the problem.
    """
    levels, bits = min(7, chosen.levels[1]), min(16, chosen.bits[1])
    rows: list[dict[str, str | int | float]] = []
    for name, problem in problems().items():
        target = float(problem.exact()[0][0])
        clip = exact_curve(problem, "clip", levels, bits).iloc[-1]
        direct = exact_curve(problem, "direct", levels, bits)
        direct = direct[direct["cost"] <= clip["cost"]].iloc[-1]
        budget = float(clip["cost"])
        spread = min(
            read_variance(problem, r).variance * classical.read_cost_mean(2, r) for r in (0.52, 0.55, 0.58, 0.6, 0.63)
        )
        found = {
            "clip": (budget, float(clip["rmse"]), 0),
            "direct": (float(direct["cost"]), float(direct["rmse"]), 0),
            "READ, best r, true variance": (budget, math.sqrt(spread / budget) / problem.scale, 0),
        }
        for method, run in CLASSICAL.items():
            draws = [run(problem, int(budget), rng) for rng in lab.seed.spawn(30, seeds)]
            errors = np.array([value - target for value, _ in draws]) / problem.scale
            cost = float(np.mean([cost for _, cost in draws]))
            found[method] = (cost, float(np.sqrt((errors**2).mean())), seeds)
        for method, (cost, rmse, repetitions) in found.items():
            rows.append(
                {
                    "problem": name,
                    "scale": problem.scale,
                    "exact": target,
                    "method": method,
                    "cost": cost,
                    "rmse": rmse,
                    "seeds": repetitions,
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


def circuits(chosen: Settings, seeds: int = 0) -> pd.DataFrame:
    """Coherent circuits run on a state-vector simulator against the formula, with queries off the tape."""
    from icml26.nested_expectations.checks import circuit_rows

    return pd.DataFrame(circuit_rows(large=lab.profile.current().name != "cpu"))


def race(chosen: Settings, seeds: int) -> pd.DataFrame:
    """READ vectorised against one call a node; batched emulator against a loop over nodes."""
    problem = LatticeBermudan(dates=3, qubits=chosen.qubits)
    samples = 20_000
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
                f"emulator, b = {b}": lambda b=b: NestedQAE(LatticeBermudan(), grid_bits=b).law(6),  # type: ignore[misc]
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
    "estimators": estimators,
    "mlmc_peer": mlmc_peer,
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
_MODULES = {
    "windows": "qae exact_runs",
    "estimators": "qae sampled_runs",
    "mlmc_peer": "problems classical peers sampled_runs",
    "exact": "problems qae emulator exact_runs",
    "sampled": "problems classical sampled_runs",
    "read_tail": "problems classical sampled_runs",
    "read_spread": "problems classical read_variance sampled_runs",
    "read_levels": "problems read_variance sampled_runs",
    "sensitivity": "problems qae emulator exact_runs",
    "applications": "problems qae emulator classical read_variance exact_runs sampled_runs experiment",
    "convergence": "problems peers experiment",
    "variable_time": "problems qae read_variance exact_runs",
    "circuits": "problems qae emulator coherent circuits checks",
    "race": "classical emulator experiment",
}
DEPENDS = {name: tuple(f"{PACKAGE}.{module}" for module in modules.split()) for name, modules in _MODULES.items()}


if __name__ == "__main__":
    lab.campaign(PACKAGE, TABLES, settings=SETTINGS["cpu"], depends=DEPENDS, deterministic=DETERMINISTIC)
