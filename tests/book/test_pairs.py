"""Every notebook pairs with its text source; and the check that says so fails on each thing it must see."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from nbformat import NotebookNode

import execute
import pairs

ROOT = Path(__file__).resolve().parents[2]


def test_every_pair_of_the_book_agrees() -> None:
    assert pairs.check_all(ROOT) == []


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small executed notebook; its text source lies beside it."""
    source = tmp_path_factory.mktemp("pair") / "07_small.py"
    text = '# %% [markdown]\n# # Title\n\n# %% tags=["setup"]\nx = 1\n\n# %%\nprint(x)\n'
    text += '\n# %% tags=["rtol=0.05"]\nx + 0.5\n'
    source.write_text(text, encoding="utf-8")
    execute.execute(source)
    return source


def test_an_executed_pair_has_no_faults(executed: Path) -> None:
    assert pairs.check_pair(executed) == []
    stored = pairs.read_notebook(executed.with_suffix(".ipynb"))
    assert set(stored.metadata) == {"jupytext", "kernelspec", "language_info"}
    assert [cell.execution_count for cell in stored.cells if cell.cell_type == "code"] == [1, 2, 3]


def _set(index: int, key: str, value: object) -> Callable[[NotebookNode], None]:
    return lambda notebook: notebook.cells[index].__setitem__(key, value)


ERROR = [NotebookNode(output_type="error", ename="ValueError", evalue="", traceback=[])]
WIDGET = [
    NotebookNode(output_type="display_data", metadata={}, data={pairs.WIDGET_VIEW: {"model_id": "1"}})
]
COLAB = [
    NotebookNode(output_type="display_data", metadata={}, data={"application/vnd.google.colab.x+json": "{}"})
]
BREAKS: dict[str, tuple[Callable[[NotebookNode], None], str]] = {
    "one character": (_set(1, "source", "x = 2"), "the .py says 'x = 1', the .ipynb 'x = 2'"),
    "a tag": (_set(3, "metadata", NotebookNode(tags=["rtol=0.5"])), "tags"),
    "a cell less": (lambda notebook: notebook.cells.pop(), "4 cells in the .py, 3 in the .ipynb"),
    "a cell type": (_set(0, "cell_type", "raw"), "markdown in the .py, raw in the .ipynb"),
    "not executed": (_set(2, "execution_count", None), "was not executed"),
    "out of order": (_set(2, "execution_count", 7), "execution count 7, expected 2"),
    "an error": (_set(2, "outputs", ERROR), "stores the error ValueError"),
    "a live widget": (_set(2, "outputs", WIDGET), "live widget"),
    "a vendor's type": (_set(2, "outputs", COLAB), "stores application/vnd.google.colab.x+json"),
    "a magic": (_set(2, "source", "%timeit x"), "magic"),
    "a skip": (_set(2, "metadata", NotebookNode(tags=["nbval-skip"])), "nbval-skip"),
    "widget metadata": (lambda notebook: notebook.metadata.update(widgets={}), "widgets"),
}


@pytest.mark.parametrize("name", BREAKS)
def test_each_break_is_seen(name: str, executed: Path) -> None:
    stored = pairs.read_notebook(executed.with_suffix(".ipynb"))
    change, message = BREAKS[name]
    change(stored)
    found = pairs.differences(pairs.read_source(executed), stored) + pairs.faults(stored)
    assert any(message in line for line in found), found


def test_an_error_on_purpose_is_allowed(executed: Path) -> None:
    stored = pairs.read_notebook(executed.with_suffix(".ipynb"))
    stored.cells[2].outputs, stored.cells[2].metadata.tags = ERROR, ["raises-exception"]
    assert pairs.faults(stored) == []


def test_a_large_notebook_is_seen(executed: Path, tmp_path: Path) -> None:
    source = tmp_path / executed.name
    source.write_bytes(executed.read_bytes())
    notebook = json.loads(executed.with_suffix(".ipynb").read_text(encoding="utf-8"))
    notebook["cells"][2]["outputs"][0]["text"] = ["x" * pairs.MAX_BYTES]
    source.with_suffix(".ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    assert any("the limit is 1.5 MB" in line for line in pairs.check_pair(source))


def test_cells_that_nobody_compares_are_counted_and_need_a_reason(tmp_path: Path) -> None:
    source = tmp_path / "07_small.py"
    cell = '# %% tags=["nbval-ignore-output"]\n'
    source.write_text(cell + "1  # wall times\n\n" + cell + "2\n", encoding="utf-8")
    assert pairs.ignored_cells([source]) == [
        "07_small.py: cell 1 ignores its output without a comment saying why"
    ]
    assert "4 cells ignore their outputs, at most 3 may" in pairs.ignored_cells([source, source])


def test_orphans_and_odd_names_are_seen(small_book: Path) -> None:
    (small_book / "notebooks" / "02_alone.ipynb").write_text("{}", encoding="utf-8")
    (small_book / "notebooks" / "01_small_experiments.py").unlink()
    found = pairs.check_all(small_book)
    assert "02_alone.ipynb has no .py beside it" in found
    assert "01_small: found ['01_small'], expected the lesson and the experiments" in found
    assert "01_small.py: 01_small.ipynb is missing: run `make notebooks`" in found
    (small_book / "notebooks" / "Draft.py").write_text("", encoding="utf-8")
    with pytest.raises(ValueError, match="Draft.py: notebooks are named"):
        pairs.chapters(small_book)


def test_ids_depend_on_the_cells_alone_and_are_unique(executed: Path) -> None:
    once, again = pairs.read_source(executed), pairs.read_source(executed)
    once.cells.append(NotebookNode(once.cells[1], id=""))
    pairs.assign_ids(once.cells)
    assert [cell.id for cell in once.cells][:-1] == [cell.id for cell in again.cells]
    assert len({cell.id for cell in once.cells}) == len(once.cells)
    again.cells[0].source += "!"
    pairs.assign_ids(again.cells)
    assert [a.id == b.id for a, b in zip(once.cells, again.cells, strict=False)] == [
        False,
        True,
        True,
        True,
    ]


def test_writing_the_source_keeps_its_header(tmp_path: Path) -> None:
    source = tmp_path / "07_small.py"
    header = (
        "# ---\n# jupyter:\n#   kernelspec:\n#     display_name: Python 3\n#     name: python3\n# ---\n"
    )
    source.write_text(header + "\n# %%\nx = 1\n", encoding="utf-8")
    notebook = pairs.read_source(source)
    notebook.cells[0].source = "x = 2"
    pairs.write_source(notebook, source)
    assert source.read_text(encoding="utf-8").startswith(header + "\n")
    assert pairs.read_source(source).cells[0].source == "x = 2"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("x = 1\n%timeit x", "%timeit x"),
        ("  !ls", "!ls"),
        ("%%bash\nls", "%%bash"),
        ("x = (7\n    % 4)", None),
        ('print("""\n% of the runs\n!\n""")', None),
        ("x = 7 % 4", None),
    ],
)
def test_a_line_is_a_magic_only_where_the_cell_is_no_python(source: str, found: str | None) -> None:
    assert pairs.magic(source) == found
