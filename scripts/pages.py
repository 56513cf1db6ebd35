"""Make the pages that are computed: scoreboard, chapter map, API pages and table of contents.

    python scripts/pages.py            write them
    python scripts/pages.py --check    change nothing, exit 1 when one differs

Sources: book/chapters.yml, book/ledgers/NN_slug.json, the modules under src/icml26 and the names of the notebooks.
The output depends on these alone, so the same sources always give the same bytes.
"""

from __future__ import annotations

import argparse
import difflib
import html
import json
import math
import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
NOTICE = "Made by scripts/pages.py; edit the sources it names, then run it again."
BEGIN, END = "<!-- chapters:begin -->", "<!-- chapters:end -->"

# verdict -> (sign, so that colour is never the only carrier; what it means)
VERDICTS: dict[str, tuple[str, str]] = {
    "reproduced": ("✓", "the paper's figure is met, at the stated scale and within the stated tolerance"),
    "direction reproduced": (
        "↗",
        "the 95 % interval lies on the effect's side of zero, and the effect is at least a third of the paper's "
        "(or the interval alone, where the paper's figure is not public)",
    ),
    "argued": ("∴", "a theorem: the notebook gives the argument, and the finite checks it names all pass"),
    "not reproduced": ("✗", "tried fairly, and it did not hold; the notebook says what was seen"),
    "out of reach here": ("○", "needs data, a model or hardware that is not there; the recipe is given"),
}


@dataclass(frozen=True)
class Chapter:
    number: str
    slug: str
    theme: str
    title: str
    paper: str
    authors: str | None
    link: str | None
    idea: str
    minutes: int
    needs: str
    finished: bool = False
    experiments: bool = False

    @property
    def stem(self) -> str:
        return f"{self.number}_{self.slug}"


@dataclass(frozen=True)
class Book:
    themes: tuple[tuple[str, str], ...]
    chapters: tuple[Chapter, ...]
    by_number: dict[str, Chapter] = field(default_factory=dict)


# --- reading ---------------------------------------------------------------------------------------------------------


def load_book(root: Path) -> Book:
    """Read and check book/chapters.yml; every mistake is a ValueError that names the chapter and the key."""
    raw = yaml.safe_load((root / "book" / "chapters.yml").read_text(encoding="utf-8"))
    if not isinstance(raw, dict) or set(raw) != {"themes", "chapters"}:
        raise ValueError("chapters.yml: expected exactly the keys 'themes' and 'chapters'")
    themes = tuple((str(t["id"]), str(t["title"])) for t in raw["themes"])
    keys = {"number", "slug", "theme", "title", "paper", "authors", "link", "idea", "minutes", "needs"}
    chapters: list[Chapter] = []
    for entry in raw["chapters"]:
        name = f"chapters.yml, chapter {entry.get('number', '?')}"
        if set(entry) != keys:
            raise ValueError(f"{name}: keys missing or unknown: {sorted(keys ^ set(entry))}")
        number, slug = entry["number"], entry["slug"]
        if not isinstance(number, str) or not re.fullmatch(r"\d\d", number):
            raise ValueError(f"{name}: number must be a quoted string of two digits, got {number!r}")
        if not re.fullmatch(r"[a-z][a-z0-9_]*", slug):
            raise ValueError(f"{name}: slug must be a lower-case Python name, got {slug!r}")
        if entry["theme"] not in dict(themes):
            raise ValueError(f"{name}: theme must be one of {[t for t, _ in themes]}, got {entry['theme']!r}")
        link = entry["link"]
        if link is not None and not re.fullmatch(r"https://[^\s\"'<>()]+", link):
            raise ValueError(f"{name}: link must be an https address or null, got {link!r}")
        minutes = entry["minutes"]
        if isinstance(minutes, bool) or not isinstance(minutes, int) or minutes <= 0:
            raise ValueError(f"{name}: minutes must be a positive whole number, got {minutes!r}")
        texts = ["title", "paper", "idea", "needs"] + (["authors"] if entry["authors"] is not None else [])
        for key in texts:
            if not isinstance(entry[key], str) or not entry[key].strip():
                raise ValueError(f"{name}: {key} must be a text that is not empty, got {entry[key]!r}")
        entry = entry | {key: one_line(entry[key]) for key in texts}
        notebooks = root / "notebooks"
        chapters.append(
            Chapter(
                **entry,
                finished=(notebooks / f"{number}_{slug}.ipynb").exists(),
                experiments=(notebooks / f"{number}_{slug}_experiments.ipynb").exists(),
            )
        )
    for key in ("number", "slug"):
        twice = [value for value, n in Counter(getattr(c, key) for c in chapters).items() if n > 1]
        if twice:
            raise ValueError(f"chapters.yml: {key} used twice: {twice}")
    if [c.number for c in chapters] != sorted(c.number for c in chapters):
        raise ValueError("chapters.yml: the chapters must stand in the order of their numbers")
    return Book(themes, tuple(chapters), {c.number: c for c in chapters})


def load_ledgers(root: Path, book: Book) -> list[dict[str, Any]]:
    """Read book/ledgers/*.json in the order of the chapters."""
    ledgers = []
    for path in sorted((root / "book" / "ledgers").glob("*.json")):
        ledger = json.loads(path.read_text(encoding="utf-8"))
        chapter = book.by_number.get(ledger.get("chapter"))
        if chapter is None or ledger.get("slug") != chapter.slug or path.stem != chapter.stem:
            raise ValueError(
                f"{path.name}: chapter {ledger.get('chapter')!r} with slug {ledger.get('slug')!r} does not belong "
                "to this file name and to chapters.yml"
            )
        if ledger.get("profile") != "cpu":
            raise ValueError(f"{path.name}: the committed ledger must be the cpu profile's, got {ledger.get('profile')!r}")
        for claim in ledger["claims"]:
            if claim["verdict"] not in VERDICTS:
                raise ValueError(
                    f"{path.name}: claim {claim['id']!r} has verdict {claim['verdict']!r}; "
                    f"expected one of {list(VERDICTS)}"
                )
        ledgers.append(ledger)
    return ledgers


# --- text ------------------------------------------------------------------------------------------------------------


def one_line(text: str) -> str:
    return " ".join(str(text).split())


def markdown(text: str) -> str:
    """The text as MyST shows it literally: no HTML, no markup, no maths."""
    return re.sub(r"([\\`*_{}\[\]<>#$|~&^!()])", r"\\\1", one_line(text))


def markup(text: Any) -> str:
    """The text as HTML: escaped, `code` and $maths$ shown as such."""

    def piece(part: str) -> str:
        if len(part) > 2 and part[0] == part[-1] == "`":
            return f"<code>{html.escape(part[1:-1])}</code>"
        if len(part) > 2 and part[0] == part[-1] == "$":
            return f'<span class="math notranslate nohighlight">\\({html.escape(part[1:-1])}\\)</span>'
        return html.escape(part)

    # An unpaired sign stays a character; a pair holds no blank at its inner edges (so "$5 and $6" is not maths).
    parts = re.split(r"(`[^`]+`|\$\S(?:[^$]*\S)?\$)", one_line(text))
    return "".join(map(piece, parts)).replace("`", "&#96;")


def number(value: Any) -> str:
    """A measured value as HTML: four significant digits, powers of ten written out, whole numbers exact."""
    if value is None:
        return "–"
    if isinstance(value, bool | str):
        return markup(value)
    if isinstance(value, list | tuple):
        return ", ".join(map(number, value))
    if isinstance(value, dict):
        return ", ".join(f"{markup(k)} = {number(v)}" for k, v in value.items())
    if isinstance(value, int) and abs(value) < 10**7:
        return str(value)
    if not math.isfinite(value):
        raise ValueError(f"a ledger holds {value!r}, which is not a finite number")
    text = f"{value:.4g}"
    if "e" in text:
        mantissa, exponent = text.split("e")
        text = f"{mantissa} × 10<sup>{int(exponent)}</sup>"
    return text.replace("-", "−")


# --- pages -----------------------------------------------------------------------------------------------------------


def chapter_map(book: Book) -> str:
    """The cards on the landing page, grouped by theme; planned chapters carry no link to a page."""
    lines = [BEGIN, f"<!-- {NOTICE} -->"]
    done = sum(c.finished for c in book.chapters)
    lines += ["", f"{len(book.chapters)} chapters, {done} finished. The others are *planned*.", ""]
    for theme, title in book.themes:
        lines += [f"### {markdown(title)}", "", "::::{grid} 1 1 2 2", ":gutter: 2", ""]
        for c in (c for c in book.chapters if c.theme == theme):
            heading = f"{c.number} · {markdown(c.title)}"
            if c.finished:
                heading = f"[{heading}](../notebooks/{c.stem}.ipynb)"
            paper = f"[{markdown(c.paper)}]({c.link})" if c.link else markdown(c.paper)
            state = f"{c.minutes} min · {markdown(c.needs)}" if c.finished else "*planned*"
            if c.finished and c.experiments:
                state += f" · [the evidence](../notebooks/{c.stem}_experiments.ipynb)"
            lines += [
                f":::{{grid-item-card}} {heading}",
                f":class-card: chapter {'finished' if c.finished else 'planned'}",
                "",
                markdown(c.idea),
                "+++",
                f"{paper}. {markdown(c.authors) if c.authors else 'Authors not named in the public sources'}.",
                "",
                state,
                ":::",
                "",
            ]
        lines += ["::::", ""]
    return "\n".join([*lines, END])


def landing(root: Path, book: Book) -> str:
    """book/index.md with the block between its two marks made anew."""
    text = (root / "book" / "index.md").read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"book/index.md: expected one line {BEGIN!r} and after it one line {END!r}")
    return text[: text.index(BEGIN)] + chapter_map(book) + text[text.index(END) + len(END) :]


def badge(verdict: str) -> str:
    sign = VERDICTS[verdict][0]
    return f'<span class="verdict v-{verdict.replace(" ", "-")}"><span aria-hidden="true">{sign}</span> {verdict}</span>'


def claim_row(chapter: Chapter, claim: dict[str, Any]) -> str:
    measured = number(claim["measured"])
    if claim["measured"] is not None and claim.get("unit"):
        measured += f" {markup(claim['unit'])}"
    if claim.get("interval"):
        low, high = map(number, claim["interval"])
        measured += f'<br><small class="interval">95 % interval {low} to {high}</small>'
    name = f"{chapter.number} · {html.escape(chapter.title)}"
    page = f"{chapter.stem}_experiments" if chapter.experiments else chapter.stem
    where = f'<a href="../notebooks/{page}.html">{name}</a>' if chapter.finished else name
    anchor = re.sub(r"[^a-z0-9-]+", "-", f"{chapter.number}-{claim['id']}".lower())
    source = f"<small>{markup(claim['source'])}</small>" if claim.get("source") else ""
    rule = f"<details><summary>rule</summary>{markup(claim['rule'])}</details>" if claim.get("rule") else ""
    cells = {
        "Chapter": where,
        "Claim": f"{markup(claim['claim'])}<br>{source}",
        "The paper's figure": markup(claim["paper"]),
        "Measured": measured,
        "Scale": markup(claim.get("scale") or "–"),
        "Verdict": badge(claim["verdict"]) + rule,
    }
    tds = "".join(f'<td data-label="{label}"><div>{text}</div></td>' for label, text in cells.items())
    attributes = f'id="claim-{anchor}" data-chapter="{chapter.number}" data-verdict="{html.escape(claim["verdict"])}"'
    return f"<tr {attributes}>{tds}</tr>"


def count_table(book: Book, ledgers: list[dict[str, Any]]) -> list[str]:
    head = "".join(f'<th scope="col">{badge(v)}</th>' for v in VERDICTS)
    lines = [
        '<div class="table-scroll" tabindex="0" role="region" aria-label="Verdicts by chapter">',
        f'<table class="counts"><thead><tr><th scope="col">Chapter</th>{head}</tr></thead><tbody>',
    ]
    total: Counter[str] = Counter()
    for ledger in ledgers:
        counts = Counter(claim["verdict"] for claim in ledger["claims"])
        total += counts
        title = html.escape(f"{ledger['chapter']} · {book.by_number[ledger['chapter']].title}")
        cells = "".join(f"<td>{counts[v]}</td>" for v in VERDICTS)
        lines.append(f'<tr><th scope="row">{title}</th>{cells}</tr>')
    cells = "".join(f"<td>{total[v]}</td>" for v in VERDICTS)
    lines.append(f'</tbody><tfoot><tr><th scope="row">All</th>{cells}</tr></tfoot></table></div>')
    return lines


# Shows the two lists only where a script runs, so that nobody meets a control that does nothing.
FILTER = """<script>
(() => {
  const form = document.getElementById("claims-filter"), out = document.getElementById("claims-shown");
  const rows = [...document.querySelectorAll("#claims tbody tr")], lists = [...form.querySelectorAll("select")];
  const wanted = new URLSearchParams(location.search);
  const apply = () => {
    let shown = 0;
    for (const row of rows) {
      row.hidden = lists.some(list => list.value && row.dataset[list.name] !== list.value);
      shown += !row.hidden;
    }
    out.textContent = shown + " of " + rows.length + " claims shown";
  };
  for (const list of lists) {
    if ([...list.options].some(o => o.value === wanted.get(list.name))) list.value = wanted.get(list.name);
    list.addEventListener("change", apply);
  }
  form.addEventListener("submit", event => event.preventDefault());
  form.hidden = false;
  apply();
})();
</script>"""


def claims_table(book: Book, ledgers: list[dict[str, Any]]) -> list[str]:
    def options(name: str, pairs: list[tuple[str, str]]) -> str:
        items = "".join(f'<option value="{html.escape(v)}">{html.escape(t)}</option>' for v, t in pairs)
        return f'<label>{name.capitalize()} <select name="{name}"><option value="">all</option>{items}</select></label>'

    chapters = [(n, f"{n} · {book.by_number[n].title}") for n in (ledger["chapter"] for ledger in ledgers)]
    lines = [
        '<form id="claims-filter" hidden>',
        options("chapter", chapters),
        options("verdict", [(v, v) for v in VERDICTS]),
        '<output id="claims-shown" aria-live="polite"></output></form>',
        '<table id="claims" class="claims"><thead><tr>',
        "".join(
            f'<th scope="col">{label}</th>'
            for label in ("Chapter", "Claim", "The paper's figure", "Measured", "Scale", "Verdict")
        ),
        "</tr></thead><tbody>",
    ]
    for ledger in ledgers:
        lines += [claim_row(book.by_number[ledger["chapter"]], claim) for claim in ledger["claims"]]
    return [*lines, "</tbody></table>", FILTER]


def raw(lines: list[str]) -> list[str]:
    return ["```{raw} html", *lines, "```", ""]


def scoreboard(book: Book, ledgers: list[dict[str, Any]]) -> str:
    lines = [
        "# Scoreboard",
        "",
        f"<!-- {NOTICE} -->",
        "",
        "Every claim that a chapter tests, with the paper's figure beside ours. A rule written before the run computes",
        "each verdict; a cell in the chapter's second notebook applies it. [How to read](how_to_read.md) says what the",
        "verdicts mean.",
        "",
    ]
    if not any(ledger["claims"] for ledger in ledgers):
        lines += [
            "No chapter has a committed ledger yet. This page fills as chapters are finished.",
            "",
            "The five verdicts you will meet here:",
            "",
            *(f"- **{verdict}**: {meaning}." for verdict, (_, meaning) in VERDICTS.items()),
            "",
        ]
    else:
        lines += ["## Verdicts", "", *raw(count_table(book, ledgers))]
        lines += ["## Claims", "", *raw(claims_table(book, ledgers))]
    findings = [(ledger["chapter"], finding) for ledger in ledgers for finding in ledger.get("findings", [])]
    if findings:
        items = []
        for chapter, finding in findings:
            value = "" if finding.get("measured") is None else f" <small>Measured: {number(finding['measured'])}.</small>"
            name = html.escape(book.by_number[chapter].title)
            items.append(f"<li><strong>{chapter} · {name}.</strong> {markup(finding['text'])}{value}</li>")
        lines += ["## Findings", "", "What the runs show that the papers do not say, or say otherwise.", ""]
        lines += raw(['<ul class="findings">', *items, "</ul>"])
    return "\n".join(lines).rstrip() + "\n"


def api_pages(root: Path, book: Book) -> dict[str, str]:
    """One page a package: its map (the package's own docstring), then each module by automodule."""
    titles = {c.slug: f"{c.number} · {c.title}" for c in book.chapters}
    titles |= {"lab": "What every chapter shares", "data": "Real data", "language": "Language models"}
    pages = {}
    for package in sorted(p.parent for p in (root / "src" / "icml26").glob("*/__init__.py")):
        slug = package.name
        modules = sorted(p.stem for p in package.glob("*.py") if not p.stem.startswith("_"))
        # The package's docstring alone: its names are documented where they are written.
        lines = [f"# icml26.{slug}", "", f"<!-- {NOTICE} -->", "", f"*{markdown(titles.get(slug, slug))}*", ""]
        lines += ["```{eval-rst}", f".. automodule:: icml26.{slug}", "   :no-members:", "```", ""]
        for module in modules:
            lines += [f"## {markdown(module)}", "", "```{eval-rst}", f".. automodule:: icml26.{slug}.{module}"]
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
            lines += [f"      - file: notebooks/{c.stem}", f"        title: {quote(f'{c.number} · {c.title}')}"]
            if c.experiments:
                lines += ["        sections:", f"          - file: notebooks/{c.stem}_experiments"]
                lines += [f"            title: {quote(f'{c.number} · The evidence')}"]
    part("Use it", ["book/teaching", "book/gpu", "book/new_chapter"])
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
    made[root / "_toc.yml"] = toc(book, list(api))
    return made


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 when a page differs")
    parser.add_argument("--root", type=Path, default=ROOT, help="the repository (default: the one of this script)")
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
        print("Run: python scripts/pages.py")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
