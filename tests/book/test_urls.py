"""The repository's address comes from one place, and every file agrees with it."""

from pathlib import Path

import pytest

import execute
import pairs
import set_urls

ROOT = Path(__file__).resolve().parents[2]
COLAB = "https://colab.research.google.com/github/example-org/a-small-book/blob/main"


def test_every_file_of_the_book_names_the_address_of_the_configuration() -> None:
    assert set_urls.main(["--check"]) == 0


def test_the_command_rewrites_all_that_names_the_old_address(
    small_book: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lesson = small_book / "notebooks" / "01_small.py"
    execute.execute(lesson)
    (small_book / "README.md").write_text(
        "[code](https://github.com/somebody/else/blob/old/src/x.py), git clone https://github.com/somebody/else.git,\n"
        "[a peer](https://github.com/somebody/elsewhere), https://github.com/third/party/blob/dev/a.py,\n"
        "[Colab](https://colab.research.google.com/github/somebody/else/blob/old/notebooks/01_small.ipynb)\n",
        encoding="utf-8",
    )
    (small_book / "CITATION.cff").write_text(
        'repository-code: "https://github.com/somebody/else"\n', encoding="utf-8"
    )
    root = ["--root", str(small_book)]

    assert set_urls.main(["--check", *root]) == 1
    said = capsys.readouterr().out
    files = (
        "README.md",
        "CITATION.cff",
        "pyproject.toml",
        "01_small.py",
        "01_small.ipynb",
        "01_small_experiments.py",
    )
    for name in files:
        assert f"{name}: names another address" in said

    assert set_urls.main(root) == 0
    assert set_urls.main(["--check", *root]) == 0
    assert (small_book / "README.md").read_text(encoding="utf-8") == (
        "[code](https://github.com/example-org/a-small-book/blob/main/src/x.py), "
        "git clone https://github.com/example-org/a-small-book.git,\n"
        "[a peer](https://github.com/somebody/elsewhere), https://github.com/third/party/blob/dev/a.py,\n"
        f"[Colab]({COLAB}/notebooks/01_small.ipynb)\n"
    )
    assert f"[Open in Colab]({COLAB}/notebooks/01_small.ipynb)" in lesson.read_text(encoding="utf-8")
    assert '"icml26[small] @ git+https://github.com/example-org/a-small-book@main"' in lesson.read_text(
        encoding="utf-8"
    )
    assert "somebody/else" not in (small_book / "pyproject.toml").read_text(encoding="utf-8")
    assert pairs.check_pair(lesson) == []  # still a pair, still executed


def test_a_chapter_without_an_extra_installs_the_core(small_book: Path) -> None:
    where = set_urls.repository(small_book)
    assert set_urls.requirement(small_book, "other", where) == (
        "icml26 @ git+https://github.com/example-org/a-small-book@main"
    )


def test_a_notebook_without_badge_or_set_up_is_seen(small_book: Path) -> None:
    (small_book / "notebooks" / "01_small.py").write_text(
        "# %% [markdown]\n# # Title\n\n# %%\n1\n", encoding="utf-8"
    )
    assert set_urls.missing(small_book) == [
        "notebooks/01_small.py: no [Open in Colab](…) line in the first Markdown cell",
        "notebooks/01_small.py: the first code cell is not the set-up cell",
    ]


@pytest.mark.parametrize(
    ("url", "branch", "message"),
    [
        ("https://gitlab.com/a/b", "main", "repository.url: got 'https://gitlab.com/a/b'"),
        ("https://github.com/a/b.git", "main", "repository.url"),
        ("https://github.com/a/b/", "main", "repository.url"),
        ("", "main", "repository.url: got ''"),
        ("https://github.com/a/b", "release/1", "repository.branch: got 'release/1'"),
    ],
)
def test_an_address_that_colab_cannot_open_is_refused(url: str, branch: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        set_urls.Repository(url, branch)


def test_the_requirements_of_others_are_left_alone() -> None:
    where = set_urls.Repository("https://github.com/new/book", "main")
    foreign = "pip install git+https://github.com/PennyLaneAI/pennylane@master"
    near = "pip install git+https://github.com/old/booklet@main"
    own = "pip install 'x @ git+https://github.com/old/book.git@dev'"
    text = set_urls.set_prose("\n".join((foreign, near, own)), {"https://github.com/old/book"}, where)
    assert text.splitlines() == [foreign, near, "pip install 'x @ git+https://github.com/new/book@main'"]
