"""Read, clean, write and compare the two files of a notebook: NN_slug.py (what people edit) and
NN_slug.ipynb.

The `.py` file (py:percent) is the source. The `.ipynb` beside it is generated: executed by
`scripts/execute.py`, or cleaned by `scripts/normalise.py` after it was saved from Colab. `python
scripts/pairs.py` checks every pair and exits with 1 when one differs, was not executed in order, or carries
what no stored notebook may carry.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbformat import NotebookNode

import commands

FORMATS = "ipynb,py:percent"
NAME = re.compile(r"(?P<number>\d\d)_(?P<slug>[a-z][a-z0-9_]*?)(?P<experiments>_experiments)?")
MAX_BYTES = 1_500_000
MAX_IGNORED_CELLS = 3  # nbval-ignore-output, per chapter
VENDOR = "application/vnd."
WIDGET_VIEW = f"{VENDOR}jupyter.widget-view+json"
MAGIC = re.compile(r"^\s*[%!]", re.MULTILINE)


def chapters(root: Path = commands.ROOT) -> dict[str, list[Path]]:
    """The chapters that have notebooks: {"01_slug": [lesson.py, experiments.py]}, by number."""
    found: dict[str, list[Path]] = {}
    for path in sorted((root / "notebooks").glob("*.py")):
        match = NAME.fullmatch(path.stem)
        if match is None:
            if path.name == "conftest.py":
                continue
            raise ValueError(f"{path.name}: notebooks are named NN_slug.py or NN_slug_experiments.py")
        found.setdefault(f"{match['number']}_{match['slug']}", []).append(path)
    return found


def magic(source: str) -> str | None:
    """The first magic or shell line of a code cell, None where there is none (or the cell is plain Python:
    a line that begins with % can go on an expression, or belong to a text).
    """
    line = MAGIC.search(source)
    if line is None:
        return None
    try:
        ast.parse(source)
    except (SyntaxError, ValueError):
        return source[line.start() :].strip().splitlines()[0]
    return None


def tags(cell: NotebookNode) -> list[str]:
    """The tags of a cell, as a list that may be empty."""
    return list(cell.metadata.get("tags", []))


def read_source(path: Path) -> NotebookNode:
    """The notebook of a py:percent file, cleaned, without outputs."""
    return clean(jupytext.read(path, fmt="py:percent"))


def read_notebook(path: Path) -> NotebookNode:
    """The notebook of an .ipynb file, as it is."""
    return nbformat.read(path, as_version=4)


def clean(notebook: NotebookNode) -> NotebookNode:
    """Drop, in place, everything that differs between two runs or machines; give the cells ids that follow
    from them.

    Kept: sources (with Unix line ends), tags, execution counts, and outputs without their metadata and
    without what only one vendor's front end reads (live widgets, Colab's tables).
    """
    notebook.metadata = NotebookNode(
        jupytext=NotebookNode(formats=FORMATS),
        kernelspec=NotebookNode(display_name="Python 3", language="python", name="python3"),
        language_info=NotebookNode(name="python"),
    )
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for cell in notebook.cells:
        cell.source = cell.source.replace("\r\n", "\n").replace("\r", "\n")
        kept = sorted(set(tags(cell)), key=tags(cell).index)
        cell.metadata = NotebookNode(tags=kept) if kept else NotebookNode()
        cell.pop("attachments", None)
        for output in cell.get("outputs", []):
            if "metadata" in output:
                output.metadata = NotebookNode()
            for kind in [kind for kind in output.get("data", {}) if kind.startswith(VENDOR)]:
                del output.data[kind]
            if output.output_type == "execute_result":
                output.execution_count = cell.execution_count
    assign_ids(notebook.cells)
    return notebook


def assign_ids(cells: Iterable[NotebookNode]) -> None:
    """Ids that depend on nothing but the cells: two runs give the same file, an edit changes one id."""
    seen: dict[str, int] = {}
    for cell in cells:
        text = f"{cell.cell_type}\n{cell.source}"
        count = seen[text] = seen.get(text, 0) + 1
        cell.id = hashlib.sha256(f"{text}\n{count}".encode()).hexdigest()[:8]


def write_notebook(notebook: NotebookNode, path: Path) -> None:
    """Write an .ipynb file atomically, after nbformat has validated it."""
    _replace(path, dump(notebook))


def dump(notebook: NotebookNode) -> str:
    """The text of an .ipynb file. Raises nbformat's ValidationError for a notebook that is none."""
    nbformat.validate(notebook)
    text: str = nbformat.writes(notebook, version=4)
    return text + "\n"


def write_pair(notebook: NotebookNode, source: Path) -> None:
    """Write both files of a notebook, or neither where it is not valid (nbformat's ValidationError)."""
    text = dump(notebook)
    write_source(notebook, source)
    _replace(source.with_suffix(".ipynb"), text)


def write_source(notebook: NotebookNode, path: Path) -> None:
    """Write the py:percent file of a notebook. The header of an existing file stays as it is."""
    text: str = jupytext.writes(notebook, fmt="py:percent")
    if path.exists():
        header, _ = split_header(path.read_text(encoding="utf-8"))
        text = header + split_header(text)[1]
    _replace(path, text)


def split_header(text: str) -> tuple[str, str]:
    """The jupytext header of a py:percent file ("" where it has none), and the rest."""
    match = re.match(r"# ---\n(?:#.*\n)*?# ---\n", text)
    return (match[0], text[match.end() :]) if match else ("", text)


def _replace(path: Path, text: str) -> None:
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8", newline="\n")
    os.replace(part, path)


def differences(source: NotebookNode, stored: NotebookNode) -> list[str]:
    """Where two notebooks differ in cell types, sources or tags; [] when they are a pair."""
    found = []
    if len(source.cells) != len(stored.cells):
        found.append(f"{len(source.cells)} cells in the .py, {len(stored.cells)} in the .ipynb")
    for number, (ours, theirs) in enumerate(zip(source.cells, stored.cells, strict=False)):
        if ours.cell_type != theirs.cell_type:
            found.append(f"cell {number}: {ours.cell_type} in the .py, {theirs.cell_type} in the .ipynb")
        elif ours.source != theirs.source:
            lines = zip(ours.source.split("\n") + [""], theirs.source.split("\n") + [""], strict=False)
            first = next((a, b) for a, b in lines if a != b)
            found.append(f"cell {number}: the .py says {first[0]!r}, the .ipynb {first[1]!r}")
        elif tags(ours) != tags(theirs):
            found.append(f"cell {number}: tags {tags(ours)} in the .py, {tags(theirs)} in the .ipynb")
    return found


def faults(stored: NotebookNode) -> list[str]:
    """What a stored notebook may not have: cells not run in order, errors, live widgets, magics, noise."""
    found = []
    code = [(number, cell) for number, cell in enumerate(stored.cells) if cell.cell_type == "code"]
    for count, (number, cell) in enumerate(code, start=1):
        if cell.execution_count is None:
            found.append(f"cell {number} was not executed (nbval would skip it)")
        elif cell.execution_count != count:
            found.append(f"cell {number} has execution count {cell.execution_count}, expected {count}")
        if not cell.source.strip():
            found.append(f"cell {number} is an empty code cell")
        if line := magic(cell.source):
            found.append(f"cell {number} has a magic or shell line ({line}): use Python calls")
        if "nbval-skip" in tags(cell):
            found.append(f"cell {number} is tagged nbval-skip")
        for output in cell.outputs:
            if output.output_type == "error" and "raises-exception" not in tags(cell):
                found.append(f"cell {number} stores the error {output.ename} without the tag raises-exception")
            for kind in output.get("data", {}):
                if kind == WIDGET_VIEW:
                    found.append(f"cell {number} stores a live widget")
                elif kind.startswith(VENDOR):
                    found.append(f"cell {number} stores {kind}, which the book cannot print")
    extra = set(stored.metadata) - {"jupytext", "kernelspec", "language_info"}
    if extra:
        found.append(f"metadata with {sorted(extra)}: run `make normalise`")
    return found


def check_pair(source: Path) -> list[str]:
    """All that is wrong with the pair of one py:percent file, one line each."""
    stored = source.with_suffix(".ipynb")
    if not stored.exists():
        return [f"{stored.name} is missing: run `make notebooks`"]
    notebook = read_notebook(stored)
    found = differences(read_source(source), notebook) + faults(notebook)
    if stored.stat().st_size > MAX_BYTES:
        found.append(f"{stored.stat().st_size / 1e6:.1f} MB, the limit is {MAX_BYTES / 1e6:.1f} MB")
    return found


def ignored_cells(sources: Iterable[Path]) -> list[str]:
    """Faults of the cells of one chapter whose outputs nobody compares: too many, or no comment."""
    found, count = [], 0
    for source in sources:
        for number, cell in enumerate(read_source(source).cells):
            if "nbval-ignore-output" in tags(cell):
                count += 1
                if "#" not in cell.source:
                    found.append(f"{source.name}: cell {number} ignores its output without a comment saying why")
    if count > MAX_IGNORED_CELLS:
        found.append(f"{count} cells ignore their outputs, at most {MAX_IGNORED_CELLS} may")
    return found


def check_all(root: Path = commands.ROOT) -> list[str]:
    """All that is wrong with the notebooks of the book, one line each."""
    found = []
    for chapter, sources in chapters(root).items():
        names = [source.stem for source in sources]
        if names != [chapter, f"{chapter}_experiments"]:
            found.append(f"{chapter}: found {names}, expected the lesson and the experiments")
        found += [f"{source.name}: {line}" for source in sources for line in check_pair(source)]
        found += [f"{chapter}: {line}" for line in ignored_cells(sources)]
    orphans = {p.stem for p in (root / "notebooks").glob("*.ipynb")} - {
        p.stem for p in (root / "notebooks").glob("*.py")
    }
    return found + [f"{name}.ipynb has no .py beside it" for name in sorted(orphans)]


def main(arguments: list[str] | None = None) -> int:
    options = commands.options(__doc__)
    root: Any = options.parse_args(arguments).root
    found = check_all(root)
    for line in found:
        print(line)
    print(f"{len(chapters(root))} chapter(s): " + (f"{len(found)} fault(s)" if found else "every pair agrees"))
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
