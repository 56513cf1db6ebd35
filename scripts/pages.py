"""Make the pages that are computed: scoreboard, chapter map, API pages and table of contents.

    python scripts/pages.py            write them
    python scripts/pages.py --check    change nothing, exit 1 when one differs

Sources: book/chapters.yml, book/ledgers/NN_slug.json, the modules under src/icml26 and the names of the
notebooks. The output depends on these alone, so the same sources always give the same bytes.
"""

from __future__ import annotations

import difflib
import json
import sys
from pathlib import Path

import commands
from chapters import NOTICE, Book, load_book, markdown
from language_page import PACKAGE, language_page
from scoreboard import load_ledgers, scoreboard

BEGIN, END = "<!-- chapters:begin -->", "<!-- chapters:end -->"


def chapter_map(book: Book) -> str:
    """The cards on the landing page, grouped by theme; planned chapters carry no link to a page."""
    lines = [BEGIN, f"<!-- {NOTICE} -->"]
    done = sum(c.finished for c in book.chapters)
    lines += ["", f"{len(book.chapters)} chapters, {done} finished. The others are *planned*.", ""]
    for theme, title in book.themes:
        lines += [f"### {markdown(title)}", "", ":::::{grid} 1 1 2 2", ":gutter: 2", ""]
        for c in (c for c in book.chapters if c.theme == theme):
            heading = f"{c.number} · {markdown(c.title)}"
            if c.finished:
                heading = f"[{heading}](../notebooks/{c.stem}.ipynb)"
            paper = f"[{markdown(c.paper)}]({c.link})" if c.link else markdown(c.paper)
            authors = markdown(c.authors) if c.authors else "Authors not named in the public sources"
            state = f"{c.minutes} min · {markdown(c.needs)}" if c.finished else "*planned*"
            if c.finished and c.experiments:
                state += f" · [the evidence](../notebooks/{c.stem}_experiments.ipynb)"
            lines += [
                f"::::{{grid-item-card}} {heading}",
                f":class-card: chapter {'finished' if c.finished else 'planned'}",
                "",
                markdown(c.idea),
                ":::{card-footer}",
                f"{paper}. {authors}{'' if authors.endswith('.') else '.'}",
                "",
                state,
                ":::",
                "::::",
                "",
            ]
        lines += [":::::", ""]
    return "\n".join([*lines, END])


def landing(root: Path, book: Book) -> str:
    """book/index.md with the block between its two marks made anew."""
    text = (root / "book" / "index.md").read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"book/index.md: expected one line {BEGIN!r} and after it one line {END!r}")
    return text[: text.index(BEGIN)] + chapter_map(book) + text[text.index(END) + len(END) :]


def api_pages(root: Path, book: Book) -> dict[str, str]:
    """One page a package: its map (the package's own docstring), then each module by automodule."""
    titles = {c.slug: f"{c.number} · {c.title}" for c in book.chapters}
    titles |= {"lab": "What every chapter shares", "data": "Real data", "language": "Language models"}
    pages = {}
    for package in sorted(p.parent for p in (root / "src" / "icml26").glob("*/__init__.py")):
        slug = package.name
        modules = sorted(p.stem for p in package.glob("*.py") if not p.stem.startswith("_"))
        # The package's docstring alone: its names are documented where they are written.
        lines = [
            f"# icml26.{slug}",
            "",
            f"<!-- {NOTICE} -->",
            "",
            f"*{markdown(titles.get(slug, slug))}*",
            "",
        ]
        lines += ["```{eval-rst}", f".. automodule:: icml26.{slug}", "   :no-members:", "```", ""]
        for module in modules:
            lines += [
                f"## {markdown(module)}",
                "",
                "```{eval-rst}",
                f".. automodule:: icml26.{slug}.{module}",
            ]
            lines += ["   :members:", "```", ""]
        pages[slug] = "\n".join(lines).rstrip() + "\n"
    return pages


def toc(book: Book, api: list[str]) -> str:
    quote = lambda text: json.dumps(text, ensure_ascii=False)  # noqa: E731
    lines = [f"# {NOTICE}", "format: jb-book", "root: book/index", "parts:"]

    def part(caption: str, files: list[str]) -> None:
        lines.extend([f"  - caption: {quote(caption)}", "    chapters:"])
        lines.extend(f"      - file: {name}" for name in files)

    part("Start here", ["book/how_to_read", "book/scoreboard", "book/notation"])
    for theme, title in book.themes:
        finished = [c for c in book.chapters if c.theme == theme and c.finished]
        if finished:
            lines += [f"  - caption: {quote(title)}", "    chapters:"]
        for c in finished:
            lines += [
                f"      - file: notebooks/{c.stem}",
                f"        title: {quote(f'{c.number} · {c.title}')}",
            ]
            if c.experiments:
                lines += ["        sections:", f"          - file: notebooks/{c.stem}_experiments"]
                lines += [f"            title: {quote(f'{c.number} · The evidence')}"]
    models = ["book/language"] if "language" in api else []
    part("Use it", ["book/teaching", "book/gpu", *models, "book/new_chapter"])
    # The shared packages first, then the chapters in their order.
    order = {c.slug: c.number for c in book.chapters}
    part("Package", [f"book/api/{slug}" for slug in sorted(api, key=lambda s: (order.get(s, "00"), s))])
    part("Back matter", ["book/glossary", "book/references", "book/licences"])
    return "\n".join(lines) + "\n"


def pages(root: Path) -> dict[Path, str]:
    """Every computed page: path -> text."""
    book = load_book(root)
    api = api_pages(root, book)
    made = {root / "book" / "api" / f"{slug}.md": text for slug, text in api.items()}
    made[root / "book" / "index.md"] = landing(root, book)
    made[root / "book" / "scoreboard.md"] = scoreboard(book, load_ledgers(root, book))
    if (root / PACKAGE).is_dir():
        made[root / "book" / "language.md"] = language_page(root)
    made[root / "_toc.yml"] = toc(book, list(api))
    return made


def main(arguments: list[str] | None = None) -> int:
    parser = commands.options(__doc__, check=True)
    options = parser.parse_args(arguments)
    root = options.root.resolve()
    made = pages(root)
    orphans = [p for p in sorted((root / "book" / "api").glob("*.md")) if p not in made]
    if not options.check:
        for path, text in made.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
        for path in orphans:
            path.unlink()
        return 0
    wrong = 0
    for path, text in sorted(made.items()):
        name = path.relative_to(root).as_posix()
        have = path.read_text(encoding="utf-8") if path.exists() else ""
        if have != text:
            wrong += 1
            print(f"{name} is not what its sources give:" if path.exists() else f"{name} is missing:")
            diff = difflib.unified_diff(have.splitlines(), text.splitlines(), name, f"{name} (made)", lineterm="", n=1)
            print("\n".join(list(diff)[:30]))
    for path in orphans:
        wrong += 1
        print(f"{path.relative_to(root).as_posix()} belongs to no package")
    if wrong:
        print("Run: make pages   (or: python scripts/pages.py)")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
