"""Run what chapters measure outside of their notebooks: `make tables CHAPTER=09`, `make race CHAPTER=09`,
`make fetch`.

Each chapter's `icml26.<slug>.experiment` is a command of its own (`lab.campaign`), `python -m
icml26.<slug>.experiment --table NAME --seeds 5`, where NAME is one of its tables, `race` (timings, on a quiet
machine) or `all` (every table but the race). A chapter whose data must be downloaded also has a function
`fetch()` there.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import commands
import ledgers

COMMITTED = {"ICML26_PROFILE": "cpu", "ICML26_SMOKE": "0"}  # the one size that committed tables have
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def slugs(root: Path = commands.ROOT) -> list[str]:
    """The chapters' packages that measure something."""
    packages = sorted((root / "src" / "icml26").glob("*/experiment.py"))
    return [path.parent.name for path in packages if path.parent.name not in commands.SHARED]


def has_fetch(root: Path, slug: str) -> bool:
    """Whether a chapter's experiment.py defines fetch(); read, not imported."""
    text = (root / "src" / "icml26" / slug / "experiment.py").read_text(encoding="utf-8")
    return any(isinstance(node, ast.FunctionDef) and node.name == "fetch" for node in ast.parse(text).body)


def chosen(root: Path, wanted: str) -> list[str]:
    """The slugs that a reader means by a number, a slug or NN_slug. Raises ValueError when none fits."""
    numbered = {path.stem for path in (root / "notebooks").glob("[0-9][0-9]_*.py")}
    names = [next((n for n in sorted(numbered) if n[3:] == slug), f"--_{slug}") for slug in slugs(root)]
    return [name[3:] for name in ledgers.choose(names, wanted)]


def run(root: Path, arguments: list[str], **environment: str) -> None:
    """Run Python on the book's own package."""
    path = os.pathsep.join(filter(None, [str(root / "src"), os.environ.get("PYTHONPATH")]))
    print("+ python " + " ".join(arguments), flush=True)
    environment = {**os.environ, **environment, "PYTHONPATH": path}
    subprocess.run([sys.executable, *arguments], cwd=root, env=environment, check=True)


def main(arguments: list[str] | None = None) -> int:
    options = commands.options(__doc__)
    options.add_argument("what", choices=("tables", "race", "fetch"))
    options.add_argument("--chapter", default="", help="number, slug or NN_slug; required but for fetch")
    options.add_argument("--seeds", type=int, help="default: as in the committed table")
    parsed = options.parse_args(arguments)
    if parsed.what != "fetch" and not parsed.chapter:
        options.error("say which chapter: CHAPTER=09")
    if parsed.what == "fetch":  # what the chapters on language models share
        run(parsed.root, ["-m", "icml26.language.fetch"])
    for slug in chosen(parsed.root, parsed.chapter):
        module = f"icml26.{slug}.experiment"
        seeds = [] if parsed.seeds is None else ["--seeds", str(parsed.seeds)]
        measure = ["-m", module, *seeds, "--table"]
        if parsed.what == "tables":
            run(parsed.root, [*measure, "all"], **COMMITTED)
        elif parsed.what == "race":
            run(parsed.root, [*measure, "race"], **COMMITTED, **ONE_THREAD)
        elif has_fetch(parsed.root, slug):
            run(parsed.root, ["-c", f"from {module} import fetch; fetch()"])
        else:
            print(f"{slug}: nothing to download")
    return 0


if __name__ == "__main__":
    sys.exit(main())
