"""Nothing of the template is left. This test fails until the chapter is written, and says where it is not."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MARK = "NOT WRITTEN" + " YET"  # in two parts, so that this file does not hold it
PLACES = [
    *sorted((ROOT / "src/icml26/CHAPTER_SLUG").rglob("*.py")),
    *sorted((ROOT / "notebooks").glob("CHAPTER_NUMBER_CHAPTER_SLUG*.py")),
    *sorted(p for p in (ROOT / "tests/CHAPTER_SLUG").glob("*.py") if p != Path(__file__).resolve()),
]


@pytest.mark.parametrize("path", PLACES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_written(path: Path) -> None:
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
    left = [f"{path.relative_to(ROOT)}:{number}: {line.strip()}" for number, line in lines if MARK in line]
    assert not left, "\n".join(left)


def test_the_chapter_is_described_in_the_map() -> None:
    entry = (
        (ROOT / "book/chapters.yml")
        .read_text(encoding="utf-8")
        .split("slug: CHAPTER_SLUG\n")[-1]
        .split("- number")[0]
    )
    assert MARK not in entry
