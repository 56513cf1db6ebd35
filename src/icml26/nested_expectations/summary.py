"""From the committed tables to curves, exponents and crossings."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from jaxtyping import Float

from icml26.nested_expectations.problems import Real
from icml26.nested_expectations.scaling import bootstrap_slope, log_corrected, slope

CONSTRUCTIONS = ("direct", "clip", "dyadic, flat, median of 5")


def quantum_curve(exact: pd.DataFrame, depth: int, method: str, bits: int | None = None) -> pd.DataFrame:
    """Rows of one construction in the table `exact`, by cost; the largest register unless `bits` is given.

    At D = 1 all constructions are one amplitude estimation.
    """
    rows = exact[(exact["depth"] == depth) & (exact["method"] == ("clip" if depth == 1 else method))]
    if rows.empty:
        raise ValueError(f"method must be in the table, got {method!r} at depth {depth}")
    if bits is not None and bits not in set(rows["bits"]):
        raise ValueError(f"bits must be one of {sorted(set(rows['bits']))} for this curve, got {bits}")
    return rows[rows["bits"] == (rows["bits"].max() if bits is None else bits)].sort_values("cost")


def sampled_curve(sampled: pd.DataFrame, depth: int, method: str) -> pd.DataFrame:
    """Mean cost and RMSE by budget of one method in the table `sampled`, with the number of repetitions."""
    rows = sampled[(sampled["depth"] == depth) & (sampled["method"] == method)]
    if rows.empty:
        raise ValueError(f"method must be in the table, got {method!r} at depth {depth}")
    found = rows.groupby("budget").agg(cost=("cost", "mean"), square=("error", lambda e: float((e**2).mean())))
    return found.assign(rmse=np.sqrt(found["square"])).reset_index()[["budget", "cost", "rmse"]]


def sampled_slope(sampled: pd.DataFrame, depth: int, method: str) -> tuple[float, float, float]:
    """Slope of log RMSE against log cost with its 95 % bootstrap interval over repetitions."""
    rows = sampled[(sampled["depth"] == depth) & (sampled["method"] == method)]
    errors = rows.pivot(index="budget", columns="seed", values="error").to_numpy()
    cost = rows.groupby("budget")["cost"].mean().to_numpy()
    return bootstrap_slope(cost, errors, np.random.default_rng(0))


def exponent(curve: pd.DataFrame) -> float:
    """Raw exponent p of cost ~ eps^-p."""
    return -1.0 / slope(curve["cost"].to_numpy(float), curve["rmse"].to_numpy())


def corrected_exponent(curve: pd.DataFrame, k: Real) -> float:
    """Exponent once log^k(1/eps) is divided out."""
    return log_corrected(curve["cost"].to_numpy(float), curve["rmse"].to_numpy(), k).alpha


def log_power(curve: pd.DataFrame) -> float:
    """The k of cost ~ eps^-1 log^k(1/eps), the exponent 1 held fixed."""
    inverse = -np.log(curve["rmse"].to_numpy())
    rest = np.log(curve["cost"].to_numpy(float)) - inverse
    return float(np.polyfit(np.log(inverse), rest, 1)[0])


def read_curve(cost_variance: Real, cost: Float[np.ndarray, " n"]) -> pd.DataFrame:
    """READ's RMSE at given costs when cost times variance is known."""
    if not (math.isfinite(cost_variance) and cost_variance > 0):
        raise ValueError(f"cost_variance must be finite and positive, got {cost_variance}")
    return pd.DataFrame({"cost": cost, "rmse": np.sqrt(cost_variance / cost)})


def envelope(*curves: pd.DataFrame) -> pd.DataFrame:
    """The best of several curves at every cost that one of them was measured at, by log-log interpolation."""
    cost = np.unique(np.concatenate([curve["cost"].to_numpy(float) for curve in curves]))
    best = np.full(cost.size, np.inf)
    for curve in curves:
        rows = curve.sort_values("cost")
        x, y = np.log(rows["cost"].to_numpy(float)), np.log(rows["rmse"].to_numpy())
        best = np.fmin(best, np.interp(np.log(cost), x, y, left=np.inf, right=np.inf))
    return pd.DataFrame({"cost": cost, "rmse": np.exp(np.minimum.accumulate(best))})


def wins(quantum: pd.DataFrame, classical: pd.DataFrame, points: int = 2000) -> list[tuple[float, float]]:
    """The intervals of cost, inside the range that both curves cover, where the first has the smaller RMSE.

    By log-log interpolation; empty when there is none.
    """
    curves = [curve.sort_values("cost") for curve in (quantum, classical)]
    ends = [(float(curve["cost"].iloc[0]), float(curve["cost"].iloc[-1])) for curve in curves]
    low, high = max(end[0] for end in ends), min(end[1] for end in ends)
    if low >= high:
        raise ValueError(f"quantum and classical must share a range of costs, got {ends[0]} and {ends[1]}")
    x = np.linspace(math.log(low), math.log(high), points)
    a, b = (np.interp(x, np.log(c["cost"].to_numpy(float)), np.log(c["rmse"].to_numpy())) for c in curves)
    ahead = np.concatenate([[False], a < b, [False]])
    edges = np.flatnonzero(ahead[1:] != ahead[:-1])
    return [(float(np.exp(x[i])), float(np.exp(x[j - 1]))) for i, j in zip(edges[::2], edges[1::2], strict=True)]


def bounded(curve: pd.DataFrame, depth: int) -> tuple[float, float]:
    """Smallest and largest cost · RMSE / (level + 1)^(2 (D - 1)): bounded if the cost is as the argument says."""
    rows = curve[curve["level"] >= 3]
    product = rows["cost"] * rows["rmse"] / (rows["level"] + 1.0) ** (2 * (depth - 1))
    return float(product.min()), float(product.max())
