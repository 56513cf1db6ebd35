"""`make new-chapter` gives a chapter that executes and passes everything but its "not written yet" checks."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import execute
import new_chapter
import pairs
import set_urls
import workshop

ROOT = Path(__file__).resolve().parents[2]
IGNORED = shutil.ignore_patterns("__pycache__", "tables", "assets")


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the book's tools and shared package, with one chapter made from the template."""
    root = tmp_path_factory.mktemp("template") / "book"
    root.mkdir()
    for name in ("scripts", "template"):
        shutil.copytree(ROOT / name, root / name, ignore=IGNORED)
    for name in ("lab", "data"):
        shutil.copytree(ROOT / "src/icml26" / name, root / "src/icml26" / name, ignore=IGNORED)
    for name in ("__init__.py", "py.typed"):
        shutil.copy(ROOT / "src/icml26" / name, root / "src/icml26")
    for folder in ("notebooks", "tests/book", "book"):
        (root / folder).mkdir(parents=True)
    for name in (
        "_config.yml",
        "pyproject.toml",
        "notebooks/conftest.py",
        "notebooks/sanitize.cfg",
        "tests/conftest.py",
        "tests/book/test_chapters.py",
    ):
        shutil.copy(ROOT / name, root / name)
    shutil.copy(ROOT / "book/chapters.yml", root / "book")
    arguments = [
        "--number",
        "98",
        "--slug",
        "mirrored_pairs",
        "--title",
        "Mirrored pairs",
        "--root",
        str(root),
    ]
    assert new_chapter.main(arguments) == 0
    return root


def _environment(book: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "COV_"))}
    return {**kept, **execute.ENVIRONMENT, "PYTHONPATH": str(book / "src")}


@pytest.mark.slow
def test_its_notebooks_execute_and_pair_and_it_fails_only_its_not_written_checks(
    book: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(book / "src"))
    sources = pairs.chapters(book)["98_mirrored_pairs"]
    assert execute.execute_chapter("98_mirrored_pairs", sources, book)
    assert pairs.check_all(book) == []
    assert (book / "book/ledgers/98_mirrored_pairs.json").exists()
    assert set_urls.main(["--check", "--root", str(book)]) == 0
    assert {path.parent.name for path in workshop.hand_outs(book)} == {"student", "solutions"}

    command = [sys.executable, "-m", "pytest", "tests", "-q", "-rA", "-p", "no:cacheprovider"]
    ran = subprocess.run(command, cwd=book, env=_environment(book), capture_output=True, text=True)
    outcomes = re.findall(r"^(PASSED|FAILED|ERROR) tests/\w+/(\S+?)(?:::|$)", ran.stdout, re.MULTILINE)
    failed = {file for outcome, file in outcomes if outcome != "PASSED"}
    passed = {file for outcome, file in outcomes if outcome == "PASSED"}
    assert failed == {"test_mirrored_pairs_written.py"}, ran.stdout
    assert {"test_mirrored_pairs_antithetic.py", "test_mirrored_pairs_experiment.py", "test_chapters.py"} <= passed
    for place in ("__init__.py", "claims.py", "98_mirrored_pairs.py", "98_mirrored_pairs_experiments.py"):
        assert re.search(rf"FAILED .*written\.py::test_written\[\S*{re.escape(place)}\]", ran.stdout), place
    assert (
        "FAILED tests/mirrored_pairs/test_mirrored_pairs_written.py::test_the_chapter_is_described"
        in ran.stdout
    )


@pytest.mark.slow
def test_it_is_lint_clean_and_typed(book: Path) -> None:
    ruff = ["ruff", "check", "--exclude=*.ipynb", "notebooks", "tests/mirrored_pairs"]
    ruff += ["src/icml26/mirrored_pairs"]
    # The book's own cache holds what mypy found out about the libraries; without it this takes minutes.
    mypy = ["mypy", "--cache-dir", str(ROOT / ".mypy_cache"), "-p", "icml26.mirrored_pairs"]
    for command in (ruff, mypy):
        ran = subprocess.run(
            [sys.executable, "-m", *command],
            cwd=book,
            env=_environment(book),
            capture_output=True,
            text=True,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr


def test_no_word_of_the_template_is_left(book: Path) -> None:
    for path in new_chapter.destinations(book, "98", "mirrored_pairs").values():
        assert not re.search(r"(CHAPTER|PAPER)_[A-Z]+", path.read_text(encoding="utf-8")), path


@pytest.mark.parametrize(
    ("number", "slug", "title", "message"),
    [
        ("5", "nd_thing", "A", "number: got '5'"),
        ("97", "Nd-Thing", "A", "slug: got 'Nd-Thing'"),
        ("97", "lab", "A", "slug: got 'lab'"),
        ("97", "class", "A", "slug: got 'class'"),
        ("97", "import", "A", "slug: got 'import'"),
        ("00", "nd_thing", "A", "number: got '00'"),
        ("٢٠", "nd_thing", "A", "number: got '٢٠'"),
        ("97", "nd_thing", 'A """ B', "title: got"),
        ("97", "nd_thing", 'So "quoted"', "title: got"),
        ("97", "nd_thing", "a \\N b", "title: got"),
        ("97", "nd_thing", " ", "title: got an empty text"),
        (
            "97",
            "mirrored_pairs",
            "A",
            "number and slug: got 97 and 'mirrored_pairs', but book/chapters.yml has 98",
        ),
        ("98", "mirrored_pairs", "A", "slug: the chapter is there already"),
    ],
)
def test_bad_requests_are_refused_and_change_nothing(
    number: str, slug: str, title: str, message: str, book: Path
) -> None:
    before = {path: path.read_bytes() for path in book.rglob("*.yml")}
    with pytest.raises(ValueError, match=re.escape(message)):
        new_chapter.create(book, number, slug, title)
    assert {path: path.read_bytes() for path in book.rglob("*.yml")} == before


def test_a_chapter_that_the_map_describes_takes_its_title_from_there(book: Path) -> None:
    entry = new_chapter.described(book, "98", "mirrored_pairs")
    assert entry is not None
    assert (entry["title"], entry["paper"]) == ("Mirrored pairs", new_chapter.MARK)
    first = pairs.read_source(book / "notebooks/98_mirrored_pairs.py").cells[0].source
    assert first.startswith("# Mirrored pairs\n")
