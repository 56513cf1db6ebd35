"""A notebook saved from Colab becomes a clean pair by one command, and never breaks pairing or the build.

`data/Copy of 03_saved.ipynb` is such a file, with what Colab leaves: a badge cell of its own,
`metadata.widgets` without `state`, ids, time stamps, counts that start at 4, a live widget, an output type of
Colab's own, an empty cell, and Windows line ends.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

import normalise
import pairs

SAVED = Path(__file__).parent / "data" / "Copy of 03_saved.ipynb"


@pytest.fixture
def saved() -> NotebookNode:
    """The notebook as Colab saved it."""
    return pairs.read_notebook(SAVED)


def test_the_file_is_what_colab_saves(saved: NotebookNode) -> None:
    text = SAVED.read_bytes().decode("utf-8")
    assert "\r\n" in text
    assert "\\r\\n" in text
    assert "state" not in saved.metadata.widgets["application/vnd.jupyter.widget-state+json"]
    assert {"colab", "accelerator"} <= set(saved.metadata)
    assert pairs.faults(saved) != []


def test_normalising_gives_a_pair_that_has_no_faults(small_book: Path) -> None:
    source = normalise.take_in(SAVED, small_book, keep_outputs=True)
    assert source == small_book / "notebooks/03_saved.py"
    assert pairs.check_pair(source) == []
    notebook = pairs.read_notebook(source.with_suffix(".ipynb"))
    assert [cell.cell_type for cell in notebook.cells] == ["markdown", "code", "code", "code", "code"]
    assert [pairs.tags(cell) for cell in notebook.cells] == [[], ["setup", "hide-input"], [], [], ["check"]]
    assert "mean 3.0" in notebook.cells[2].outputs[0].text
    for path in (source, source.with_suffix(".ipynb")):
        text = path.read_bytes().decode("utf-8")
        noises = ("\r", "\\r", "executionInfo", "outputId", "widget-", "T4", "view-in-github")
        assert [noise for noise in noises if noise in text] == [], path.name


def test_normalising_twice_changes_nothing(small_book: Path) -> None:
    source = normalise.take_in(SAVED, small_book, keep_outputs=True)
    stored = source.with_suffix(".ipynb")
    before = source.read_bytes(), stored.read_bytes()
    normalise.take_in(stored, small_book, keep_outputs=True)
    assert (source.read_bytes(), stored.read_bytes()) == before


def test_the_command_executes_it_here(small_book: Path) -> None:
    uploaded = small_book / "notebooks" / "03_saved (1).ipynb"
    shutil.copy(SAVED, uploaded)
    assert normalise.main([str(uploaded), "--root", str(small_book)]) == 0
    notebook = pairs.read_notebook(small_book / "notebooks/03_saved.ipynb")
    assert notebook.cells[3].outputs[0].text == "the slider stands at 2\n"


@pytest.mark.slow
def test_the_result_builds_with_warnings_as_errors(small_book: Path) -> None:
    normalise.take_in(SAVED, small_book, keep_outputs=True)
    pages = small_book / "pages"
    pages.mkdir()
    shutil.copy(small_book / "notebooks/03_saved.ipynb", pages / "index.ipynb")
    config = 'extensions = ["myst_nb"]\nnb_execution_mode = "off"\nmyst_enable_extensions = ["dollarmath"]\n'
    (pages / "conf.py").write_text(config, encoding="utf-8")
    command = [sys.executable, "-m", "sphinx", "-W", "-n", "-q", "-b", "html", "pages", "built"]
    ran = subprocess.run(command, cwd=small_book, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "mean 3.0" in (small_book / "built/index.html").read_text(encoding="utf-8")


def test_a_cell_that_did_not_run_stays_marked_as_such(saved: NotebookNode) -> None:
    saved.cells[3].execution_count = None
    clean = normalise.normalise(saved)
    assert [cell.get("execution_count") for cell in clean.cells] == [None] * 5
    assert any("was not executed" in line for line in pairs.faults(clean))


def test_cells_that_ran_in_another_order_lose_their_outputs(saved: NotebookNode) -> None:
    saved.cells[2].execution_count = 99
    clean = normalise.normalise(saved)
    assert all(not cell.get("outputs") for cell in clean.cells)


@pytest.mark.parametrize("line", ["!pip install numpy", "%pip install numpy", "x = 1\n%timeit x"])
def test_a_magic_or_shell_line_is_refused_by_name(line: str, saved: NotebookNode) -> None:
    saved.cells[3].source = line
    with pytest.raises(ValueError, match=r"cell 2: '[!%].*is a magic or shell line"):
        normalise.normalise(saved)


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("03_saved.ipynb", "03_saved"),
        ("03_saved (2).ipynb", "03_saved"),
        ("Copy of 03_saved_experiments.ipynb", "03_saved_experiments"),
        ("Copy of Copy of 03_saved.ipynb", "03_saved"),
        ("Copy_of_03_saved.ipynb", "03_saved"),
    ],
)
def test_colabs_names_are_understood(name: str, stem: str) -> None:
    assert normalise.stem(Path(name)) == stem


def test_other_names_are_refused(small_book: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = small_book / "Untitled7.ipynb"
    path.write_text(json.dumps(nbformat.v4.new_notebook()), encoding="utf-8")
    assert normalise.main([str(path), "--root", str(small_book)]) == 1
    assert "got 'Untitled7.ipynb', expected a name such as 03_slug.ipynb" in capsys.readouterr().out


def test_an_attached_picture_is_refused_by_name(saved: NotebookNode) -> None:
    text = next(cell for cell in saved.cells if cell.cell_type == "markdown" and "<a href" not in cell.source)
    text.attachments = {"plot.png": {"image/png": "iVBOR"}}
    with pytest.raises(ValueError, match=r"cell \d+: plot\.png is attached"):
        normalise.normalise(saved)


@pytest.mark.parametrize(
    "content",
    ["{}", "[]", "", "<<<<<<< ours", '{"cells": [{"cell_type": "odd"}], "nbformat": 4}', "\xff", None],
    ids=["empty object", "list", "empty", "merge marker", "no such cell", "binary", "missing"],
)
def test_what_is_no_notebook_changes_no_file(
    content: str | None, small_book: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = normalise.take_in(SAVED, small_book, keep_outputs=True)
    before = [path.read_bytes() for path in (source, source.with_suffix(".ipynb"))]
    uploaded = small_book / "03_saved.ipynb"
    if content is not None:
        uploaded.write_text(content, encoding="latin-1")
    assert normalise.main([str(uploaded), "--root", str(small_book), "--keep-outputs"]) == 1
    assert "03_saved.ipynb: " in capsys.readouterr().out
    assert [path.read_bytes() for path in (source, source.with_suffix(".ipynb"))] == before
