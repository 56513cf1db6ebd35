"""Hold every notebook to its wall limit: reads the JUnit file that nbval wrote and adds up the cells'
seconds.

`python scripts/budget.py _build/nbval.xml [--limit 180]` prints one line a notebook, slowest first, and
exits with 1 when one took longer than the limit or the file holds no notebook at all.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree

LIMIT = 180.0
CELL = re.compile(r"^(?P<notebook>.+?\.ipynb)::")


def seconds(report: Path) -> dict[str, float]:
    """Wall seconds of each notebook in a JUnit report, slowest first.

    Raises ValueError for a time that is negative, not finite or no number.
    """
    total: dict[str, float] = defaultdict(float)
    for case in ElementTree.parse(report).iter("testcase"):
        name = case.get("classname", "") or case.get("name", "")
        match = CELL.match(case.get("name", ""))
        key = match["notebook"] if match else name.rsplit(".ipynb", 1)[0].replace(".", "/") + ".ipynb"
        taken = float(case.get("time", "0"))
        if not (math.isfinite(taken) and taken >= 0):
            raise ValueError(f"{report}: {key} took {taken} seconds, expected a finite number >= 0")
        total[key] += taken
    return dict(sorted(total.items(), key=lambda item: -item[1]))


def main(arguments: list[str] | None = None) -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("report", type=Path)
    options.add_argument("--limit", type=float, default=LIMIT, help="wall seconds a notebook")
    parsed = options.parse_args(arguments)
    if not (math.isfinite(parsed.limit) and parsed.limit > 0):
        options.error(f"--limit: got {parsed.limit}, expected a finite number of seconds > 0")
    try:
        found = seconds(parsed.report)
    except ValueError as error:
        print(error)
        return True
    for name, taken in found.items():
        print(f"{taken:7.1f} s  {name}" + ("   OVER THE LIMIT" if taken > parsed.limit else ""))
    if not found:
        print(f"{parsed.report} holds no notebook")
    return not found or max(found.values()) > parsed.limit


if __name__ == "__main__":
    sys.exit(main())
