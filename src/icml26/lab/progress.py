"""A bar on long work; silence in CI, in pipes and in stored outputs."""

import os
import sys
from collections.abc import Iterable
from typing import TypeVar

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


def _watched() -> bool:
    if any(os.environ.get(name, "0") not in ("", "0", "false") for name in ("CI", "ICML26_STATIC")):
        return False
    return sys.stderr.isatty() or _live_kernel()


def _live_kernel() -> bool:
    """Whether this is a notebook's kernel: its stderr is no terminal, yet a reader sits before it."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")
