"""What the commands in this folder share: where the book is, and how they read their arguments."""

from __future__ import annotations

import argparse
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHARED = {"lab", "data", "language"}  # the packages below icml26 that are no chapters


def options(description: str | None, *, check: bool = False) -> argparse.ArgumentParser:
    """A parser that has `--root`, and with `check` also `--check`."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=ROOT, help="the book's folder")
    if check:
        parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 where a file differs")
    return parser
