"""Write the hand-outs of a workshop from the lessons: `make workshop`, or `--check` to see whether they are
current.

`workshop/student/NN_slug.ipynb`: the lesson without the cells tagged `solution`; the stubs (`exercise`) and
the checks (`check`) stay, and the badge opens the student notebook itself.
`workshop/solutions/NN_slug.ipynb`: the same with the solutions. Both without outputs; the same lesson always
gives the same bytes.
"""

from __future__ import annotations

import sys
from pathlib import Path

from nbformat import NotebookNode

import commands
import pairs
import set_urls

KINDS = ("student", "solutions")


def exercises_faults(lesson: NotebookNode) -> list[str]:
    """Where the exercises of a lesson do not come as stub, solution, check, in this order; [] when all do."""
    roles = [
        (number, role)
        for number, cell in enumerate(lesson.cells)
        if cell.cell_type == "code"
        for role in ("exercise", "solution", "check")
        if role in pairs.tags(cell)
    ]
    found, expected = [], "exercise"
    for number in sorted({number for number, _ in roles}):
        if len(several := [role for place, role in roles if place == number]) > 1:
            found.append(f"cell {number} is {' and '.join(several)} at once, expected one role a cell")
    following = {"exercise": "solution", "solution": "check", "check": "exercise"}
    for number, role in roles:
        if role != expected and not (expected == "exercise" and role == "check"):
            found.append(f"cell {number} is a {role}, expected the {expected} (stub, solution, check)")
        expected = following[role]
    if expected != "exercise":
        found.append(f"the last exercise has no {expected}")
    return found


def hand_out(lesson: NotebookNode, name: str, kind: str, root: Path) -> NotebookNode:
    """One hand-out of a lesson. Raises ValueError where an exercise lacks its stub, solution or check."""
    if kind not in KINDS:
        raise ValueError(f"kind: got {kind!r}, expected one of {KINDS}")
    if faults := exercises_faults(lesson):
        raise ValueError(f"{name}: " + "; ".join(faults))
    where = set_urls.repository(root)
    install = set_urls.requirement(root, name[3:], where)
    cells = [cell for cell in lesson.cells if kind == "solutions" or "solution" not in pairs.tags(cell)]
    made = NotebookNode(metadata=NotebookNode(), nbformat=4, nbformat_minor=5, cells=[])
    for cell in cells:
        copied = NotebookNode(cell_type=cell.cell_type, metadata=cell.metadata, source=cell.source, id="")
        copied.source = set_urls.set_notebook(cell.source, f"workshop/{kind}/{name}.ipynb", install, where)
        if copied.cell_type == "code":
            copied.outputs, copied.execution_count = [], None
        made.cells.append(copied)
    made = pairs.clean(made)
    del made.metadata["jupytext"]  # a hand-out has no text source beside it
    return made


def hand_outs(root: Path = commands.ROOT) -> dict[Path, str]:
    """Every hand-out of the book: its path and its text."""
    made = {}
    for name, sources in pairs.chapters(root).items():
        lesson = pairs.read_source(sources[0])
        for kind in KINDS:
            made[root / "workshop" / kind / f"{name}.ipynb"] = pairs.dump(hand_out(lesson, name, kind, root))
    return made


def main(arguments: list[str] | None = None) -> int:
    options = commands.options(__doc__, check=True)
    parsed = options.parse_args(arguments)
    root = parsed.root
    made = hand_outs(root)
    present = set((root / "workshop").glob("*/*.ipynb"))
    stale = [p for p, text in made.items() if p not in present or p.read_text(encoding="utf-8") != text]
    left_over = sorted(present - set(made))
    for path in stale + left_over:
        print(
            f"{path.relative_to(root)}: "
            + ("not current" if parsed.check else "written" if path in made else "removed")
        )
    if not parsed.check:
        for path in stale:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(made[path], encoding="utf-8", newline="\n")
        for path in left_over:
            path.unlink()
    differ = bool(stale or left_over) and parsed.check
    print("run `make workshop`" if differ else f"workshop: {len(made)} hand-outs, all current")
    return differ


if __name__ == "__main__":
    sys.exit(main())
