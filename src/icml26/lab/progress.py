"""A bar on long work; silence in CI, in pipes and in stored outputs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from tqdm import tqdm

T = TypeVar("T")


def progress(iterable: Iterable[T], desc: str = "", total: int | None = None) -> Iterable[T]:
    """Iterate with a progress bar on stderr where somebody watches.

    Args:
        iterable: what to go through.
        desc: words before the bar.
        total: how many items there are, where `iterable` has no length.

    Returns:
        The same items in the same order. Without a watcher (stderr is neither a terminal nor a live kernel,
        or `CI` or `ICML26_STATIC` is set) this is `iterable` itself and nothing is printed.
    """
    if not _watched():
        return iterable
    from tqdm import tqdm

    return tqdm(iterable, desc=desc or None, total=total, file=sys.stderr, leave=False)


def bar(desc: str, total: int | None, initial: int = 0, unit: str = "it") -> tqdm[Any]:
    """A bar to be moved by hand with `update`, under the same rule: it is disabled where nobody watches.

    Args:
        desc: words before the bar.
        total: units in all, None when unknown.
        initial: units done before.
        unit: what is counted; "B" is scaled (kB, MB).
    """
    from tqdm import tqdm

    shown: tqdm[Any] = tqdm(
        desc=desc,
        total=total,
        initial=initial,
        unit=unit,
        unit_scale=unit == "B",
        file=sys.stderr,
        disable=not _watched(),
    )
    return shown


def _watched() -> bool:
    if any(os.environ.get(name, "0") not in ("", "0", "false") for name in ("CI", "ICML26_STATIC")):
        return False
    return sys.stderr.isatty() or _live_kernel()


def _live_kernel() -> bool:
    """Whether this is a notebook's kernel: its stderr is no terminal, yet a reader sits before it."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")
