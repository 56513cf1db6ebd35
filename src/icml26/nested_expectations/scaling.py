"""How an error falls with cost: slopes, logarithmic corrections, crossings.

A cost of `eps^-1 log^k(1/eps)` has no straight line on log-log paper: its local slope of RMSE against cost is
flatter than -1 at any finite eps. Hence three views: the raw slope, the local slopes, and the fit

    log cost = a + alpha log(1/eps) + k log log(1/eps)

with k fixed or free. All logarithms are natural.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from icml26.nested_expectations.problems import Real

__all__ = ["Crossing", "LogFit", "bootstrap_slope", "crossing", "local_slopes", "log_corrected", "slope"]


def _curve(
    cost: Float[np.ndarray, " n"], rmse: Float[np.ndarray, " n"], least: int
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    for name, values in (("cost", cost), ("rmse", rmse)):
        if not (np.isfinite(values).all() and (values > 0).all()):
            raise ValueError(f"{name} must be finite and positive, got {values}")
    if cost.size < least:
        raise ValueError(f"cost must hold at least {least} points for this fit, got {cost.size}")
    if np.ptp(np.log(cost)) == 0.0:
        raise ValueError(f"cost must take at least two different values, got {cost}")
    return np.log(cost), np.log(rmse)


def slope(cost: Float[np.ndarray, " n"], rmse: Float[np.ndarray, " n"]) -> float:
    """Least-squares slope of log rmse against log cost; raw, that is without any logarithmic correction."""
    x, y = _curve(cost, rmse, 2)
    x = x - x.mean()
    return float(x @ y / (x @ x))


def local_slopes(cost: Float[np.ndarray, " n"], rmse: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n-1"]:
    """Slope of log rmse against log cost between neighbouring points; costs must increase."""
    x, y = _curve(cost, rmse, 2)
    if (np.diff(x) <= 0).any():
        raise ValueError(f"cost must increase from point to point, got {cost}")
    return np.asarray(np.diff(y) / np.diff(x))


@dataclass(frozen=True)
class LogFit:
    """log cost = constant + alpha log(1/eps) + k log log(1/eps); `residual` is the largest misfit in logs."""

    constant: float
    alpha: float
    k: float
    residual: float

    def cost(self, eps: Real) -> float:
        """Fitted cost of an RMSE eps in (0, 1), in and outside of the fitted range."""
        if not 0.0 < eps < 1.0:
            raise ValueError(f"eps must lie in (0, 1), got {eps!r}")
        decades = math.log(1.0 / eps)
        return math.exp(self.constant + self.alpha * decades + self.k * math.log(decades))


def log_corrected(
    cost: Float[np.ndarray, " n"], rmse: Float[np.ndarray, " n"], k: Real | None = None
) -> LogFit:
    """Fit the exponent alpha of 1/eps with a power k of log(1/eps), given or fitted (k=None).

    `rmse` must be in units in which it is below 1. With k free, alpha and k are nearly collinear over a few
    decades: read them together.
    """
    log_cost, log_rmse = _curve(cost, rmse, 3 if k is not None else 4)
    decades = -log_rmse
    if (decades <= 0).any():
        raise ValueError(f"rmse must be below 1 for a logarithmic correction, got {rmse}")
    weights_sought = 3 if k is None else 2
    if np.unique(decades).size < weights_sought:
        raise ValueError(f"rmse must take at least {weights_sought} different values for this fit, got {rmse}")
    log_decades = np.log(decades)
    ones = np.ones_like(decades)
    if k is None:
        design, answer = np.stack([ones, decades, log_decades], axis=1), log_cost
    else:
        design, answer = np.stack([ones, decades], axis=1), log_cost - k * log_decades
    weights = np.linalg.lstsq(design, answer, rcond=None)[0]
    residual = float(np.abs(design @ weights - answer).max())
    return LogFit(
        float(weights[0]), float(weights[1]), float(weights[2]) if k is None else float(k), residual
    )


@dataclass(frozen=True)
class Crossing:
    """Where two error curves meet."""

    cost: float
    rmse: float


def crossing(
    cost_a: Float[np.ndarray, " n"],
    rmse_a: Float[np.ndarray, " n"],
    cost_b: Float[np.ndarray, " m"],
    rmse_b: Float[np.ndarray, " m"],
) -> Crossing | None:
    """The last cost from which on curve a lies below curve b, by log-log interpolation; or None.

    Only costs that both curves cover count: nothing is extrapolated. None too when a is below b all along.
    """
    xa, ya = _curve(cost_a, rmse_a, 2)
    xb, yb = _curve(cost_b, rmse_b, 2)
    for name, x in (("cost_a", xa), ("cost_b", xb)):
        if (np.diff(x) <= 0).any():
            raise ValueError(f"{name} must increase from point to point")
    low, high = max(xa[0], xb[0]), min(xa[-1], xb[-1])
    x = np.union1d(xa, xb)
    x = np.union1d(x[(x >= low) & (x <= high)], [low, high]) if low <= high else x[:0]
    gap = np.interp(x, xa, ya) - np.interp(x, xb, yb)
    if x.size < 2 or gap[-1] > 0 or (gap <= 0).all():
        return None
    i = int(np.flatnonzero(gap > 0)[-1])
    at = x[i] + (x[i + 1] - x[i]) * gap[i] / (gap[i] - gap[i + 1])
    return Crossing(float(np.exp(at)), float(np.exp(np.interp(at, xa, ya))))


def bootstrap_slope(
    cost: Float[np.ndarray, " n"],
    errors: Float[np.ndarray, "n replicates"],
    rng: np.random.Generator,
    resamples: int = 2000,
) -> tuple[float, float, float]:
    """Slope of log RMSE against log cost with a 95 % bootstrap interval over replicates: (slope, low, high).

    `errors[i]` holds the errors (estimate minus truth) of independent replicates at `cost[i]`; each cost is
    resampled on its own. Raises ValueError when so many errors are exactly zero that resamples without any
    error decide an end of the interval.
    """
    n, replicates = errors.shape
    if replicates < 2:
        raise ValueError(f"errors must hold at least 2 replicates a cost, got {replicates}")
    if resamples < 1:
        raise ValueError(f"resamples must be at least 1, got {resamples}")
    x, y = _curve(cost, np.sqrt((errors**2).mean(axis=1)), 2)
    x = (x - x.mean()) / ((x - x.mean()) @ (x - x.mean()))
    pick = rng.integers(0, replicates, size=(resamples, n, replicates))
    squared = np.take_along_axis(np.broadcast_to(errors**2, (resamples, n, replicates)), pick, axis=2)
    with np.errstate(divide="ignore", invalid="ignore"):
        slopes = 0.5 * np.log(squared.mean(axis=2)) @ x
        low, high = np.quantile(slopes, [0.025, 0.975])
    if not (np.isfinite(low) and np.isfinite(high)):
        zeros = (errors == 0.0).mean(axis=1)
        raise ValueError(
            f"errors must not be zero so often that resamples are: the shares of zeros by cost are {zeros}"
        )
    return float(x @ y), float(low), float(high)
