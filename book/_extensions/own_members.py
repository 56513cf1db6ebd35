"""The API pages show the book's own classes and functions, not the libraries' that a module passes on.

A name in `__all__` may come from a library. Autodoc would then print that library's documentation, and viewcode
its source text, as if they were ours.
"""

from __future__ import annotations

import inspect
import types
from typing import Any


def foreign(obj: Any) -> bool:
    """Whether a class or function is defined outside of icml26; an alias such as `tuple[int, str]` counts as Python's."""
    if isinstance(obj, types.GenericAlias):
        return True
    home = getattr(obj, "__module__", None)
    return (inspect.isclass(obj) or inspect.isroutine(obj)) and (home or "").partition(".")[0] != "icml26"


def skip(app: Any, what: str, name: str, obj: Any, skipped: bool, options: Any) -> bool | None:
    """True leaves a member out; None leaves the choice to autodoc."""
    return True if what == "module" and foreign(obj) else None


def setup(app: Any) -> dict[str, Any]:
    app.connect("autodoc-skip-member", skip)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
