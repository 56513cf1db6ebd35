"""Compare the claims ledgers that the notebooks have just written with the committed ones, or adopt the new
ones.

`--check` (after nbval, in `make test`): for every chapter with notebooks, `_build/ledgers/NN_slug.cpu.json`
against
`book/ledgers/NN_slug.json`: verdicts exactly, numbers within each claim's rtol, missing and extra ids. Exit
1 on a difference.
`--adopt CHAPTER`: copy the built ledger of one chapter (`make notebooks` does it for each chapter that ran).
`--clear`: remove the built ones, so that a check never reads yesterday's.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import commands


def built(root: Path) -> Path:
    """The folder of the ledgers that this machine's last run wrote."""
    return root / "_build" / "ledgers"


def committed(root: Path) -> Path:
    """The folder of the ledgers that the book prints."""
    return root / "book" / "ledgers"


def choose(names: Sequence[str], wanted: str) -> list[str]:
    """The names ("NN_slug") that a reader means by a number, a slug or a name; all for "".

    Raises ValueError when none fits.
    """
    if not wanted:
        return list(names)
    number = f"{int(wanted):02d}" if wanted.isdigit() else None
    chosen = [n for n in names if n == wanted or n.partition("_")[2] == wanted or n[:2] == number]
    if not chosen:
        raise ValueError(
            f"chapter: got {wanted!r}, expected a number or slug of {', '.join(names) or 'no chapter yet'}"
        )
    return chosen


def read(path: Path) -> dict[str, Any]:
    """The ledger in a file. Raises ValueError naming the file where it holds none (edited by hand, say)."""
    try:
        ledger = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path.name}: is no JSON ({error})") from error
    if not isinstance(ledger, dict):
        raise ValueError(f"{path.name}: holds a {type(ledger).__name__}, expected a ledger's object")
    for group, needed in (("claims", _CLAIM), ("findings", _FINDING)):
        rows = ledger.get(group)
        if not isinstance(rows, list):
            raise ValueError(f"{path.name}: {group} is {rows!r}, expected a list")
        for row in rows:
            if not isinstance(row, dict) or (lacking := needed - row.keys()):
                what = f"lacks {', '.join(sorted(lacking))}" if isinstance(row, dict) else f"is {row!r}"
                raise ValueError(f"{path.name}: an entry of {group} {what}")
            _check_numbers(path.name, row)
    return ledger


_CLAIM = {"id", "claim", "paper", "source", "kind", "rule", "measured", "unit", "interval", "scale"}
_CLAIM |= {"rtol", "verdict"}
_FINDING = {"id", "text", "measured"}


def _check_numbers(name: str, row: dict[str, Any]) -> None:
    """ValueError unless measured and rtol are numbers (or None) and the interval has two of them."""
    ends = row.get("interval")
    if ends is not None and not (isinstance(ends, list) and len(ends) == 2):
        raise ValueError(f"{name}: {row['id']!r} has the interval {ends!r}, expected two numbers")
    for value in (row["measured"], row.get("rtol"), *(ends or ())):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise ValueError(f"{name}: {row['id']!r} has {value!r} where a number belongs")
    if ends is not None and None in ends:
        raise ValueError(f"{name}: {row['id']!r} has the interval {ends!r}, expected two numbers")


def check(root: Path = commands.ROOT) -> list[str]:
    """The differences between built and committed ledgers, one line each.

    A chapter that has a committed ledger but wrote none fails too, and so does one that wrote a ledger
    nobody committed.
    """
    from icml26.lab import ledger

    ours = {path.name.removesuffix(".cpu.json"): path for path in sorted(built(root).glob("*.cpu.json"))}
    theirs = {path.stem: path for path in sorted(committed(root).glob("*.json"))}
    lessons = {path.stem for path in (root / "notebooks").glob("[0-9][0-9]_*.py")}
    names = {name for name in lessons if not name.endswith("_experiments")} | set(ours) | set(theirs)
    found = []
    for name in sorted(names):
        if name not in ours:
            found.append(f"{name}: the notebooks wrote no ledger (expected {name}.cpu.json in _build/ledgers)")
        elif name not in theirs:
            found.append(f"{name}: no ledger is committed; run `make notebooks CHAPTER={name}`")
        else:
            try:
                pair = read(ours[name]), read(theirs[name])
            except ValueError as error:
                found.append(str(error))
                continue
            found += [f"{name}: {line}" for line in ledger.compare(*pair)]
    return found


def adopt(name: str, root: Path = commands.ROOT) -> Path:
    """Copy the ledger that a chapter's CPU run wrote to where the book prints it; returns the new path."""
    source = built(root) / f"{name}.cpu.json"
    if not source.exists():
        raise ValueError(f"chapter: {source} is missing; run the notebooks first")
    target = committed(root) / f"{name}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    return target


def main(arguments: list[str] | None = None) -> int:
    options = commands.options(__doc__)
    todo = options.add_mutually_exclusive_group(required=True)
    todo.add_argument("--check", action="store_true")
    todo.add_argument("--clear", action="store_true")
    todo.add_argument("--adopt", metavar="CHAPTER")
    parsed = options.parse_args(arguments)
    if parsed.clear:
        for path in built(parsed.root).glob("*.cpu.json"):
            path.unlink()
        return 0
    if parsed.adopt:
        names = [path.name.removesuffix(".cpu.json") for path in built(parsed.root).glob("*.cpu.json")]
        for name in choose(names, parsed.adopt):
            print(adopt(name, parsed.root))
        return 0
    found = check(parsed.root)
    for line in found:
        print(line)
    print(f"ledgers: {len(found)} difference(s)" if found else "ledgers: built and committed agree")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
