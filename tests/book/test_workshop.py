"""The hand-outs are current; a student's says what is not answered yet; the solutions pass every check."""

from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

import execute
import pairs
import workshop

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = pairs.chapters(ROOT)


def test_the_hand_outs_of_the_book_are_current() -> None:
    assert workshop.main(["--check"]) == 0


def _checks(notebook: NotebookNode) -> list[str]:
    """What each check printed."""
    found = []
    for cell in notebook.cells:
        if cell.cell_type == "code" and "check" in pairs.tags(cell):
            found.append("".join(output.get("text", "") for output in cell.outputs))
    return found


def _run(text: str, folder: Path) -> NotebookNode:
    # Static sliders: with live ones a message between client and kernel was once lost, and the run hung.
    return execute.run(nbformat.reads(text, as_version=4), folder)


def test_a_small_lesson_makes_both_hand_outs(small_book: Path) -> None:
    root = ["--root", str(small_book)]
    assert workshop.main(["--check", *root]) == 1
    assert workshop.main(root) == 0
    assert workshop.main(["--check", *root]) == 0
    student = (small_book / "workshop/student/01_small.ipynb").read_text(encoding="utf-8")
    solutions = (small_book / "workshop/solutions/01_small.ipynb").read_text(encoding="utf-8")
    address = "https://colab.research.google.com/github/example-org/a-small-book/blob/main/workshop"
    assert f"{address}/student/01_small.ipynb" in student
    assert f"{address}/solutions/01_small.ipynb" in solutions
    assert "answer = 42" not in student
    assert "answer = 42" in solutions
    assert '"outputs": []' in student
    assert _checks(_run(student, small_book)) == ["not answered yet\n"]
    assert _checks(_run(solutions, small_book)) == ["✓ right\n"]


def test_a_stale_or_left_over_hand_out_is_seen_and_mended(small_book: Path) -> None:
    root = ["--root", str(small_book)]
    workshop.main(root)
    path = small_book / "workshop/student/01_small.ipynb"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("Double", "Halve"), encoding="utf-8")
    (path.parent / "02_gone.ipynb").write_text("{}", encoding="utf-8")
    assert workshop.main(["--check", *root]) == 1
    assert workshop.main(root) == 0
    assert path.read_text(encoding="utf-8") == text
    assert not (path.parent / "02_gone.ipynb").exists()


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        (["exercise", "check"], "is a check, expected the solution"),
        (["exercise", "solution"], "the last exercise has no check"),
        (["solution", "check"], "is a solution, expected the exercise"),
        (["exercise+solution", "check"], "is exercise and solution at once"),
        (["exercise", "solution+check"], "is solution and check at once"),
        (["exercise", "solution", "check", "check"], None),
        (["exercise", "solution", "check", "exercise", "solution", "check"], None),
    ],
)
def test_an_exercise_without_its_stub_solution_or_check_is_refused(
    roles: list[str], message: str | None
) -> None:
    lesson = nbformat.v4.new_notebook()
    lesson.cells = [nbformat.v4.new_code_cell("1", metadata={"tags": role.split("+")}) for role in roles]
    faults = workshop.exercises_faults(lesson)
    assert (faults == []) if message is None else any(message in line for line in faults)


@pytest.mark.slow
@pytest.mark.skipif(not CHAPTERS, reason="no chapter has notebooks yet")
@pytest.mark.parametrize("name", CHAPTERS)
def test_a_students_notebook_runs_unanswered(name: str, tmp_path: Path) -> None:
    text = (ROOT / "workshop/student" / f"{name}.ipynb").read_text(encoding="utf-8")
    checks = _checks(_run(text, tmp_path))
    assert checks
    assert all("not answered yet" in line and "✓" not in line for line in checks), checks


@pytest.mark.slow
@pytest.mark.skipif(not CHAPTERS, reason="no chapter has notebooks yet")
@pytest.mark.parametrize("name", CHAPTERS)
def test_the_solutions_pass_every_check(name: str, tmp_path: Path) -> None:
    """The first chapter's solutions run here; the others' are the lesson's cells, which nbval runs."""
    text = (ROOT / "workshop/solutions" / f"{name}.ipynb").read_text(encoding="utf-8")
    solutions = nbformat.reads(text, as_version=4)
    lesson = pairs.read_notebook(ROOT / "notebooks" / f"{name}.ipynb")
    # Cell 0 differs by its badge.
    assert [cell.source for cell in solutions.cells[1:]] == [cell.source for cell in lesson.cells[1:]]
    for notebook in [lesson] + ([_run(text, tmp_path)] if name == next(iter(CHAPTERS)) else []):
        checks = _checks(notebook)
        assert checks
        assert all("✓" in line for line in checks), checks
