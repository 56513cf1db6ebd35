"""Take in a notebook that was edited on Colab: `make normalise NOTEBOOK=path`.

Colab saves what the book does not store: its own metadata, widgets without their state, ids, time stamps, a
second badge, the outputs of a GPU machine, sometimes Windows line ends. This writes the text source
`notebooks/NN_slug.py` and a clean
`notebooks/NN_slug.ipynb` that pair, then executes the source here, so that the stored outputs are the CPU
profile's again.
`--keep-outputs` leaves out that last step (cells that Colab did not run stay marked as not executed).
The path's file name says which notebook it is; Colab's "Copy of 03_x.ipynb" and "03_x (1).ipynb" are
understood.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import nbformat
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode, ValidationError

import commands
import execute
import pairs

BADGE_CELL = re.compile(r"\s*<a href=\"https://colab\.research\.google\.com/[^>]*>\s*<img [^>]*>\s*</a>\s*")


def stem(path: Path) -> str:
    """The notebook's name in the book: "03_x" for "Copy of 03_x (1).ipynb".

    Raises ValueError for a name that no notebook of the book can have.
    """
    name = re.sub(r"(\s*\(\d+\)| \d+)$", "", re.sub(r"^(copy[ _]of[ _])+", "", path.stem, flags=re.IGNORECASE))
    if pairs.NAME.fullmatch(name) is None:
        raise ValueError(f"notebook: got {path.name!r}, expected a name such as 03_slug.ipynb")
    return name


def normalise(notebook: NotebookNode) -> NotebookNode:
    """Clean, in place, what Colab saved; execution counts become 1..n where every cell ran in order.

    Raises ValueError for a cell with a magic or shell line or an attached picture, which a text source
    cannot hold.
    """
    notebook.cells = [
        cell
        for cell in notebook.cells
        if cell.metadata.get("id") != "view-in-github"
        and not (cell.cell_type == "markdown" and BADGE_CELL.fullmatch(cell.source))
        and (cell.cell_type != "code" or cell.source.strip())
    ]
    for number, cell in enumerate(notebook.cells):
        if cell.get("attachments"):
            raise ValueError(
                f"cell {number}: {', '.join(sorted(cell.attachments))} is attached, which a text source "
                "cannot hold; draw it in a code cell instead"
            )
        if cell.cell_type == "code" and (line := pairs.magic(cell.source)):
            raise ValueError(f"cell {number}: {line!r} is a magic or shell line; write a Python call instead")
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    counts = [cell.execution_count for cell in code]
    if all(counts) and counts == sorted(set(counts)):
        for count, cell in enumerate(code, start=1):
            cell.execution_count = count
    else:  # some cell did not run, or not in the book's order: its output is not what the source gives
        for cell in code:
            cell.execution_count, cell.outputs = None, []
    return pairs.clean(notebook)


def take_in(path: Path, root: Path = commands.ROOT, *, keep_outputs: bool = False) -> Path:
    """Normalise a saved notebook into the book's pair of files; returns the text source's path.

    Raises ValueError, with both files as they were, for a file that is missing or holds no notebook.
    """
    source = root / "notebooks" / f"{stem(path)}.py"
    try:
        notebook = pairs.read_notebook(path)
        nbformat.validate(notebook)
    except OSError as error:
        raise ValueError(f"cannot be read ({error.strerror or error})") from error
    except (ValidationError, AttributeError, KeyError, TypeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ValueError(f"is no notebook ({reason})") from error
    pairs.write_pair(normalise(notebook), source)
    if not keep_outputs:
        execute.execute(source)
    return source


def main(arguments: list[str] | None = None) -> int:
    options = commands.options(__doc__)
    options.add_argument("notebook", type=Path)
    options.add_argument("--keep-outputs", action="store_true", help="do not execute; keep what Colab showed")
    parsed = options.parse_args(arguments)
    try:
        source = take_in(parsed.notebook, parsed.root, keep_outputs=parsed.keep_outputs)
    except ValueError as error:
        print(f"{parsed.notebook}: {error}")
        return 1
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        print(f"the pair is written, but the notebook does not run here:\n{error}")
        return 1
    left = pairs.check_pair(source)
    for line in left:
        print(f"{source.name}: {line}")
    print(f"wrote {source.name} and {source.with_suffix('.ipynb').name}")
    return bool(left)


if __name__ == "__main__":
    sys.exit(main())
