"""What the chapter measures: frozen settings for each profile, and the committed tables.

    python -m icml26.CHAPTER_SLUG.experiment --table errors --seeds 5

NOT WRITTEN YET: replace the example by the chapter's experiments.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from icml26 import lab
from icml26.CHAPTER_SLUG.antithetic import antithetic_mean, plain_mean
from icml26.CHAPTER_SLUG.peers import sobol_mean

PACKAGE = "icml26.CHAPTER_SLUG"
METHODS = {"plain": plain_mean, "antithetic": antithetic_mean, "Sobol": sobol_mean}
TRUTH = float(np.e - 1)


@dataclass(frozen=True)
class Settings:
    """sizes: values of f an estimate may use. runs: estimates whose root mean square error is taken."""

    sizes: tuple[int, ...]
    runs: int


SETTINGS = {
    "cpu": Settings(sizes=(16, 64, 256), runs=200),
    "gpu": Settings(sizes=(16, 64, 256, 1024), runs=4000),
    "paper": Settings(sizes=(16, 64, 256, 1024, 4096), runs=20_000),
}
SMOKE = Settings(sizes=(16, 32), runs=2)


def settings() -> Settings:
    """The settings of the current profile."""
    return lab.profile.choose(SETTINGS, SMOKE)


def errors(chosen: Settings, seeds: int) -> pd.DataFrame:
    """Root mean square errors of the estimates of E[exp(U)], one row a method, size and seed.

    Raises:
        ValueError: seeds is not positive.
    """
    if seeds < 1:
        raise ValueError(f"seeds: got {seeds}, expected at least 1")
    rows = []
    for seed, rng in enumerate(lab.seed.spawn(0, seeds)):
        for method, estimate in METHODS.items():
            for n in chosen.sizes:
                deviation = estimate(np.exp, n, chosen.runs, rng) - TRUTH
                rows.append(
                    {"method": method, "n": n, "seed": seed, "rmse": float(np.sqrt(np.mean(deviation**2)))}
                )
    return pd.DataFrame(rows)


def race(chosen: Settings, seeds: int) -> pd.DataFrame:
    """Times of the methods at the largest size, as ratios against the plain estimate."""
    n = chosen.sizes[-1]
    contestants: dict[str, Callable[[], object]] = {
        name: partial(estimate, np.exp, n, chosen.runs, np.random.default_rng(0))
        for name, estimate in METHODS.items()
    }
    return lab.race(contestants, reference="plain", repeats=max(7, seeds)).frame


TABLES: dict[str, Callable[[Settings, int], pd.DataFrame]] = {"errors": errors, "race": race}
DEPENDS = dict.fromkeys(TABLES, tuple(f"{PACKAGE}.{name}" for name in ("antithetic", "peers", "experiment")))

if __name__ == "__main__":
    lab.campaign(PACKAGE, TABLES, settings=SETTINGS["cpu"], depends=DEPENDS)
