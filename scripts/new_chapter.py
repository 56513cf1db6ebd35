"""Start a chapter from the template: `make new-chapter NUMBER=05 SLUG=nd_rope TITLE="…"`.

Copies `template/` into `src/icml26/SLUG/`, `notebooks/NN_SLUG*.py` and `tests/SLUG/`, adds the chapter to
`book/chapters.yml` unless it is described there already (then title, paper, authors and link come from
there), and measures the example's tables. The result builds, executes and passes its tests, but for
`tests/SLUG/test_SLUG_written.py`, which lists what is not written yet.
"""

from __future__ import annotations

import keyword
import re
import sys
from pathlib import Path
from typing import Any

import yaml

import commands
import experiments
import set_urls

MARK = "NOT WRITTEN YET"


def described(root: Path, number: str, slug: str) -> dict[str, Any] | None:
    """The chapter's entry in book/chapters.yml, None when there is none.

    Raises ValueError when the number or the slug belongs to another chapter.
    """
    listed = yaml.safe_load((root / "book" / "chapters.yml").read_text(encoding="utf-8"))["chapters"]
    entry: dict[str, Any]
    for entry in listed:
        same = (str(entry["number"]) == number, entry["slug"] == slug)
        if all(same):
            return entry
        if any(same):
            raise ValueError(
                f"number and slug: got {number} and {slug!r}, but book/chapters.yml has "
                f"{entry['number']} {entry['slug']!r}"
            )
    return None


def describe(root: Path, number: str, slug: str, title: str) -> dict[str, Any]:
    """Add the chapter to book/chapters.yml, at its end, and return the entry."""
    path = root / "book" / "chapters.yml"
    text = path.read_text(encoding="utf-8")
    themes = yaml.safe_load(text).get("themes") or [{"id": "other"}]
    entry = {
        "number": number,
        "slug": slug,
        "theme": themes[0]["id"],
        "title": title,
        "paper": MARK,
        "authors": None,
        "link": None,
        "idea": f"{MARK}.",
        "minutes": 30,
        "needs": "CPU",
    }
    lines = yaml.safe_dump([entry], sort_keys=False, allow_unicode=True, width=110).splitlines()
    path.write_text(
        text.rstrip("\n") + "\n\n" + "".join(f"  {line}\n" for line in lines),
        encoding="utf-8",
        newline="\n",
    )
    return entry


def destinations(root: Path, number: str, slug: str) -> dict[Path, Path]:
    """Each file of the template, and where the chapter has it."""
    template = root / "template"
    places = {p: root / "src" / "icml26" / slug / p.name for p in sorted((template / "package").glob("*.py"))}
    stems = {"lesson": f"{number}_{slug}", "experiments": f"{number}_{slug}_experiments"}
    for name, stem in stems.items():
        places[template / "notebooks" / f"{name}.py"] = root / "notebooks" / f"{stem}.py"
    for path in sorted((template / "tests").glob("test_*.py")):
        places[path] = root / "tests" / slug / f"test_{slug}_{path.stem.removeprefix('test_')}.py"
    return places


def create(root: Path, number: str, slug: str, title: str) -> list[Path]:
    """Write the chapter's files and describe it; returns the files.

    Raises ValueError for a malformed number or slug, a missing title, or a chapter that is there already.
    """
    if not re.fullmatch(r"[0-9]{2}", number) or number == "00":
        raise ValueError(f"number: got {number!r}, expected two digits from 01 to 99, e.g. 05")
    taken = keyword.iskeyword(slug) or slug in commands.SHARED or slug.endswith("_experiments")
    if taken or not re.fullmatch(r"[a-z][a-z0-9_]*", slug):
        raise ValueError(f"slug: got {slug!r}, expected a lower-case Python name, e.g. nd_rope")
    if '"""' in title or "\\" in title or title.rstrip().endswith('"'):
        raise ValueError(
            f"title: got {title!r}, expected a text that can begin a docstring: no backslash, no three "
            "quotation marks, none at the end"
        )
    entry = described(root, number, slug)
    places = destinations(root, number, slug)
    if there := [path for path in places.values() if path.exists()]:
        raise ValueError(f"slug: the chapter is there already: {there[0].relative_to(root)}")
    if entry is None:
        if not title.strip():
            raise ValueError(
                "title: got an empty text; book/chapters.yml does not describe the chapter, so give it one"
            )
        entry = describe(root, number, slug, title)
    words = {
        "CHAPTER_NUMBER": number,
        "CHAPTER_SLUG": slug,
        "CHAPTER_TITLE": title.strip() or entry["title"],
        "PAPER_TITLE": entry["paper"],
        "PAPER_AUTHORS": entry["authors"] or MARK,
        "PAPER_LINK": entry["link"] or "https://icml.cc",
    }
    where = set_urls.repository(root)
    for source, target in places.items():
        text = source.read_text(encoding="utf-8")
        for word, value in words.items():
            text = text.replace(word, " ".join(str(value).split()))
        if target.parent.name == "notebooks":
            install = set_urls.requirement(root, slug, where)
            text = set_urls.set_notebook(text, f"notebooks/{target.stem}.ipynb", install, where)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8", newline="\n")
    return list(places.values())


def main(arguments: list[str] | None = None) -> int:
    options = commands.options(__doc__)
    options.add_argument("--number", required=True)
    options.add_argument("--slug", required=True)
    options.add_argument("--title", default="", help="not needed where book/chapters.yml describes the chapter")
    parsed = options.parse_args(arguments)
    try:
        made = create(parsed.root, parsed.number, parsed.slug, parsed.title)
    except ValueError as error:
        print(error)
        return 2
    for what in ("tables", "race"):
        experiments.main([what, "--chapter", parsed.slug, "--root", str(parsed.root)])
    for path in made:
        print(path.relative_to(parsed.root))
    print(f"next: make notebooks CHAPTER={parsed.number} pages workshop; make test lists what is left to write")
    return 0


if __name__ == "__main__":
    sys.exit(main())
