"""Sampled runs: the classical estimators, repetition by repetition, and READ's cost and variance.

READ's cost is counted as its mean: what a sample happened to cost is itself heavy-tailed.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from icml26 import lab
from icml26.nested_expectations import classical, peers, qae
from icml26.nested_expectations.problems import RNE, LatticeBermudan
from icml26.nested_expectations.read_torch import read_on_device
from icml26.nested_expectations.read_variance import read_variance
from icml26.nested_expectations.sizes import Settings

Sampler = Callable[[RNE, int, np.random.Generator], tuple[float, float]]


def _nested(problem: RNE, budget: int, rng: np.random.Generator) -> tuple[float, float]:
    found = classical.nested_mc(problem, classical.nested_mc_split(problem.depth, budget), rng)
    return found.value, float(found.cost)


def read_draws(problem: RNE, samples: int, rng: np.random.Generator, r: float = 0.6) -> classical.Draws:
    """READ draws: by numpy in the cpu profile, by torch on the profile's device in the others."""
    profile = lab.profile.current()
    if profile.name == "cpu":
        return classical.read(problem, samples, rng, r)
    return read_on_device(problem, samples, int(rng.integers(2**31)), profile.device, r)


def _read(r: float) -> Sampler:
    def run(problem: RNE, budget: int, rng: np.random.Generator) -> tuple[float, float]:
        cost = classical.read_cost_mean(problem.depth, r)
        samples = max(2, round(budget / cost))
        return read_draws(problem, samples, rng, r).mean, samples * cost

    return run


def _derandomised(problem: RNE, budget: int, rng: np.random.Generator) -> tuple[float, float]:
    samples = max(2, round(budget / classical.read_cost_mean(problem.depth)))
    found = classical.mlmc_derandomised(problem, samples, rng)
    return found.value, float(found.cost)


def _regression(problem: RNE, budget: int, rng: np.random.Generator) -> tuple[float, float]:
    found = classical.longstaff_schwartz(problem, max(8, budget // (2 * problem.depth)), rng)
    return found.value, float(found.cost)


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
            costs = read_draws(problem, draws, rng).costs
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
            seen = [read_draws(problem, draws, rng, r).values.var(ddof=1) for rng in lab.seed.spawn(20, seeds)]
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
    context = warnings.catch_warnings()
    warnings.simplefilter("ignore", RuntimeWarning)
    return context


def estimators(chosen: Settings, seeds: int) -> pd.DataFrame:
    """Five ways to estimate one amplitude, by cost: RMSE over seeds and four amplitudes, mean queries, coverage.

    Windowed phase estimation, flat (median of 5) and cosine; maximum likelihood with doubling powers; the
    iterative scheme; plain sampling. Coverage is the share of 95 % intervals that hold the truth.
    """
    runs: dict[str, Callable[[qae.Oracle, int], qae.Estimate]] = {
        "flat window, median of 5": lambda oracle, k: qae.canonical(oracle, 2**k, repeats=5),
        "cosine window": lambda oracle, k: qae.cosine(oracle, 2**k),
        "maximum likelihood": lambda oracle, k: qae.mlae(oracle, [0, *(2**i for i in range(k - 4))], shots=32),
        "iterative": lambda oracle, k: qae.iqae(oracle, 2.0 ** (1 - k), shots=32),
        "plain sampling": lambda oracle, k: qae.mlae(oracle, [0], shots=2 ** (k + 1)),
    }
    rows = []
    for name, k in itertools.product(runs, range(5, chosen.window_bits)):
        found, truths = [], []
        for seed, rng in enumerate(lab.seed.spawn(40, seeds)):
            a = (0.06, 0.3, 0.5, 0.87)[seed % 4]
            found.append(runs[name](qae.ExactOracle(a, rng), k))
            truths.append(a)
        estimate, truth = np.array([e.estimate for e in found]), np.array(truths)
        low, high = np.array([e.interval for e in found]).T
        rows.append(
            {
                "method": name,
                "k": k,
                "queries": float(np.mean([e.queries for e in found])),
                "rmse": float(np.sqrt(((estimate - truth) ** 2).mean())),
                "coverage": float(((low <= truth) & (truth <= high)).mean()),
            }
        )
    return pd.DataFrame(rows)


def mlmc_peer(chosen: Settings, seeds: int) -> pd.DataFrame:
    """The `mlmc` package against this book's classical estimators at its cost (D = 2, one call a sample there)."""
    problem = LatticeBermudan(qubits=chosen.qubits)
    target = float(problem.exact()[0][0])
    samples = [max(4, round(4000 * 2.0 ** (-1.25 * n))) for n in range(8)]
    rows = []
    for seed in range(seeds):
        found = peers.mlmc_package(problem, samples, seed)
        rows.append(("mlmc package, eight levels", seed, found.cost, found.value))
        for method, run in CLASSICAL.items():
            value, cost = run(problem, found.cost, lab.seed.spawn(50 + seed, 1)[0])
            rows.append((method, seed, cost, value))  # type: ignore[arg-type]
    frame = pd.DataFrame(rows, columns=["method", "seed", "cost", "value"])
    return frame.assign(cost=frame["cost"].astype(float), error=(frame["value"] - target) / problem.scale)


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
