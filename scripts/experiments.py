"""Run what chapters measure outside of their notebooks: `make tables CHAPTER=09`, `make race CHAPTER=09`,
`make fetch`.

Each chapter's `icml26.<slug>.experiment` is a command of its own, `python -m icml26.<slug>.experiment
--table NAME --seeds 5`, where NAME is one of its tables, `race` (timings, on a quiet machine) or `all`
(every table but the race). A chapter whose data must be downloaded also has a function `fetch()` there.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
from pathlib import Path

import ledgers

ROOT = Path(__file__).resolve().parents[1]
SHARED = {"lab", "data", "language"}


def slugs(root: Path = ROOT) -> list[str]:
    """The chapters' packages that measure something."""
    packages = sorted((root / "src" / "icml26").glob("*/experiment.py"))
    return [path.parent.name for path in packages if path.parent.name not in SHARED]


def has_fetch(root: Path, slug: str) -> bool:
    """Whether a chapter's experiment.py defines fetch(); read, not imported."""
    text = (root / "src" / "icml26" / slug / "experiment.py").read_text(encoding="utf-8")
    return any(isinstance(node, ast.FunctionDef) and node.name == "fetch" for node in ast.parse(text).body)


def chosen(root: Path, wanted: str) -> list[str]:
    """The slugs that a reader means by a number, a slug or NN_slug. Raises ValueError when none fits."""
    numbered = {path.stem for path in (root / "notebooks").glob("[0-9][0-9]_*.py")}
    names = [next((n for n in sorted(numbered) if n[3:] == slug), f"--_{slug}") for slug in slugs(root)]
    return [name[3:] for name in ledgers.choose(names, wanted)]


def main(arguments: list[str] | None = None) -> int:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("what", choices=("tables", "race", "fetch"))
    options.add_argument("--chapter", default="", help="number, slug or NN_slug; required but for fetch")
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--root", type=Path, default=ROOT, help="the book's folder")
    parsed = options.parse_args(arguments)
    if parsed.what != "fetch" and not parsed.chapter:
        options.error("say which chapter: CHAPTER=09")
    for slug in chosen(parsed.root, parsed.chapter):
        module = f"icml26.{slug}.experiment"
        if parsed.what == "fetch":
            if not has_fetch(parsed.root, slug):
                print(f"{slug}: nothing to download")
                continue
            command = [sys.executable, "-c", f"from {module} import fetch; fetch()"]
        else:
            table = "race" if parsed.what == "race" else "all"
            command = [sys.executable, "-m", module, "--table", table, "--seeds", str(parsed.seeds)]
        print("+ " + " ".join(command[1:]), flush=True)
        subprocess.run(command, check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
