"""Random numbers: one call seeds everything that a chapter may draw from."""

import operator
import random
import sys

import numpy as np


def seed_all(seed: int) -> np.random.Generator:
    """Seed Python, NumPy and (if something has imported it) torch; return a generator of its own.

    On a machine without CUDA torch is also told to use deterministic algorithms, so that the same seed gives
    the same bits. Call it after the imports: a torch that is imported later keeps its own default seed.

    Args:
        seed: 0 <= seed < 2**32.

    Raises:
        TypeError, ValueError: `seed` is no integer, or outside the range.
    """
    seed = _checked(seed)
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - libraries still draw from the global state
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(seed)  # CUDA devices too
        if not torch.cuda.is_available():
            torch.use_deterministic_algorithms(True, warn_only=True)
    return np.random.default_rng(seed)


def spawn(seed: int, n: int) -> list[np.random.Generator]:
    """`n` independent generators, one per repetition; the first k do not depend on n.

    Raises:
        TypeError, ValueError: `seed` is no integer in [0, 2**32), or `n` < 1.
    """
    n = operator.index(n)
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}")
    return [np.random.default_rng(child) for child in np.random.SeedSequence(_checked(seed)).spawn(n)]


def _checked(seed: int) -> int:
    if isinstance(seed, bool):
        raise TypeError(f"seed must be an integer, got {seed!r}")
    seed = operator.index(seed)
    if not 0 <= seed < 2**32:
        raise ValueError(f"seed must be in [0, 2**32), got {seed}")
    return seed
