"""The method of the chapter. NOT WRITTEN YET: replace this example, and name the file after the paper's idea.

The example estimates the mean of f(U), U uniform on [0, 1], from n values of f: once from independent
points, once from mirrored pairs u, 1 - u. For a monotone f the pairs are negatively correlated, and the
second estimate is closer.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

Function = Callable[[np.ndarray], np.ndarray]


def plain_mean(f: Function, n: int, runs: int, rng: np.random.Generator) -> Float[np.ndarray, "runs"]:
    """Means of n independent values of f, one a run (Eq. 1).

    Args:
        f: elementwise function of points in [0, 1].
        n: values of f a run, even and at least 2 (so that both estimates cost the same).
        runs: how many independent estimates.
        rng: source of the points.

    Raises:
        ValueError: n is odd or too small, runs is not positive, or f returns another shape or values that
        are not finite.
    """
    _check(n, runs)
    return _row_means(f, rng.random((runs, n)))


def antithetic_mean(f: Function, n: int, runs: int, rng: np.random.Generator) -> Float[np.ndarray, "runs"]:
    """Means of n values of f at n / 2 mirrored pairs u, 1 - u, one a run (Eq. 2).

    Arguments and errors as for `plain_mean`.
    """
    _check(n, runs)
    points = rng.random((runs, n // 2))
    return _row_means(f, np.concatenate([points, 1 - points], axis=1))


def _check(n: int, runs: int) -> None:
    if n < 2 or n % 2:
        raise ValueError(f"n: got {n}, expected an even number of at least 2")
    if runs < 1:
        raise ValueError(f"runs: got {runs}, expected at least 1")


def _row_means(f: Function, points: np.ndarray) -> np.ndarray:
    values = np.asarray(f(points), dtype=np.float64)
    if values.shape != points.shape:
        raise ValueError(
            f"f: got values of shape {values.shape}, expected {points.shape}: f must work elementwise"
        )
    if not np.isfinite(values).all():
        raise ValueError("f: got values that are not finite, expected finite ones on [0, 1]")
    means: np.ndarray = values.mean(axis=1)
    return means
