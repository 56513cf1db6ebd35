"""What the method is compared with, through its own library. NOT WRITTEN YET: the chapter's peers."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from scipy.stats import qmc


def sobol_mean(
    f: Callable[[np.ndarray], np.ndarray], n: int, runs: int, rng: np.random.Generator
) -> Float[np.ndarray, "runs"]:
    """Means of f over n points of a scrambled Sobol sequence, one a run, by scipy.stats.qmc.

    Raises:
        ValueError: n is not a power of two, where the sequence loses its balance.
    """
    if n < 1 or n & (n - 1):
        raise ValueError(f"n: got {n}, expected a power of two")
    points = np.stack([qmc.Sobol(1, rng=rng).random(n)[:, 0] for _ in range(runs)])
    means: np.ndarray = np.asarray(f(points), dtype=np.float64).mean(axis=1)
    return means
