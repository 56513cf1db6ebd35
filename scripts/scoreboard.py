"""The scoreboard: every claim of every committed ledger as one page."""

from __future__ import annotations

import html
import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

import ledgers as ledger_files
from chapters import NOTICE, Book, Chapter, one_line

# verdict -> (sign, so that colour is never the only carrier; what it means)
VERDICTS: dict[str, tuple[str, str]] = {
    "reproduced": ("✓", "the paper's figure is met, at the stated scale and within the stated tolerance"),
    "direction reproduced": (
        "↗",
        "the 95 % interval lies on the effect's side of zero, and the effect is at least a third of the "
        "paper's (or the interval alone, where the paper's figure is not public)",
    ),
    "argued": ("∴", "a theorem: the notebook gives the argument, and the finite checks it names all pass"),
    "not reproduced": ("✗", "tried fairly, and it did not hold; the notebook says what was seen"),
    "out of reach here": ("○", "needs data, a model or hardware that is not there; the recipe is given"),
}


def load_ledgers(root: Path, book: Book) -> list[dict[str, Any]]:
    """Read book/ledgers/*.json in the order of the chapters."""
    ledgers = []
    for path in sorted((root / "book" / "ledgers").glob("*.json")):
        ledger = ledger_files.read(path)
        chapter = book.by_number.get(ledger.get("chapter"))
        if chapter is None or ledger.get("slug") != chapter.slug or path.stem != chapter.stem:
            raise ValueError(
                f"{path.name}: chapter {ledger.get('chapter')!r} with slug {ledger.get('slug')!r} "
                "does not belong to this file name and to chapters.yml"
            )
        if ledger.get("profile") != "cpu":
            raise ValueError(
                f"{path.name}: the committed ledger must be the cpu profile's, got {ledger.get('profile')!r}"
            )
        for claim in ledger["claims"]:
            if claim["verdict"] not in VERDICTS:
                raise ValueError(
                    f"{path.name}: claim {claim['id']!r} has verdict {claim['verdict']!r}; "
                    f"expected one of {list(VERDICTS)}"
                )
        ledgers.append(ledger)
    return ledgers


def markup(text: Any) -> str:
    """The text as HTML: escaped, `code` and $maths$ shown as such."""

    def piece(part: str) -> str:
        if len(part) > 2 and part[0] == part[-1] == "`":
            return f"<code>{html.escape(part[1:-1])}</code>"
        if len(part) > 2 and part[0] == part[-1] == "$":
            return f'<span class="math notranslate nohighlight">\\({html.escape(part[1:-1])}\\)</span>'
        return html.escape(part)

    # An unpaired sign stays a character; a pair holds no blank at its inner edges: "$5 and $6" is not maths.
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
        return str(value).replace("-", "−")
    if not math.isfinite(value):
        raise ValueError(f"a ledger holds {value!r}, which is not a finite number")
    text = f"{value:.4g}"
    if "e" in text:
        mantissa, exponent = text.split("e")
        text = f"{mantissa} × 10<sup>{int(exponent)}</sup>"
    return text.replace("-", "−")


def badge(verdict: str) -> str:
    sign, style = VERDICTS[verdict][0], verdict.replace(" ", "-")
    return f'<span class="verdict v-{style}"><span aria-hidden="true">{sign}</span> {verdict}</span>'


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
  const rows = [...document.querySelectorAll("#claims tbody tr")];
  const lists = [...form.querySelectorAll("select")];
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
        items = f'<option value="">all</option>{items}'
        return f'<label>{name.capitalize()} <select name="{name}">{items}</select></label>'

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
        "Every claim that a chapter tests, with the paper's figure beside ours. A rule written down as data",
        "computes each verdict; a cell in the chapter's second notebook applies it.",
        "[How to read](how_to_read.md) says what the verdicts mean.",
        "[Notation](notation.md) explains symbols such as $\\varepsilon$, an allowed error.",
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
            value = (
                "" if finding.get("measured") is None else f" <small>Measured: {number(finding['measured'])}.</small>"
            )
            name = html.escape(book.by_number[chapter].title)
            items.append(f"<li><strong>{chapter} · {name}.</strong> {markup(finding['text'])}{value}</li>")
        lines += ["## Findings", "", "What the runs show that the papers do not say, or say otherwise.", ""]
        lines += raw(['<ul class="findings">', *items, "</ul>"])
    return "\n".join(lines).rstrip() + "\n"
