"""What the chapter measures: frozen settings for each profile, and the committed tables.

    python -m icml26.nested_expectations.experiment --table exact --seeds 5

Tables of exact laws need no seeds. `sampled` holds single errors of independent repetitions (160 seeds, so that
slopes have intervals). All errors are in units of the problem's scale, all costs in one-step samplers.
"""

from __future__ import annotations

import itertools
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


def circuits(chosen: Settings, seeds: int = 0) -> pd.DataFrame:
    """Coherent circuits run on a state-vector simulator against the formula, with queries off the tape."""
    from icml26.nested_expectations.checks import circuit_rows

    return pd.DataFrame(circuit_rows())


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
        "exact_runs",
        "sampled_runs",
        "sizes",
        "experiment",
    )
)


if __name__ == "__main__":
    lab.campaign(PACKAGE, TABLES, settings=SETTINGS["cpu"], depends=DEPENDS, deterministic=DETERMINISTIC)
