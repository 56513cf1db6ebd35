"""The claims ledger: what the paper says, what the run measured, and a verdict that a rule computed.

A rule is data, written down before the run, and so is `refuted_by`: a measurement for which the rule must say
"not reproduced". A verdict that nothing computed cannot be entered.
"""

import html
import json
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, SupportsFloat

import numpy as np

from icml26.lab import profile
from icml26.lab.rules import (
    ARGUED,
    DIRECTION,
    NOT_REPRODUCED,
    OUT_OF_REACH,
    REPRODUCED,
    VERDICTS,
    Argued,
    AtLeast,
    AtMost,
    Between,
    Direction,
    OutOfReach,
    Rule,
    Within,
    bounds,
    number,
)

__all__ = [
    "KINDS",
    "VERDICTS",
    "Argued",
    "AtLeast",
    "AtMost",
    "Between",
    "Claim",
    "Direction",
    "Ledger",
    "OutOfReach",
    "Rule",
    "Within",
    "compare",
    "open",
]

KINDS = ("value", "timing", "proof")

_SIGNS = {REPRODUCED: "✓", DIRECTION: "↗", ARGUED: "∴", NOT_REPRODUCED: "✗", OUT_OF_REACH: "○"}


@dataclass(frozen=True)
class Claim:
    """One claim of the paper, with the rule that will judge it.

    Attributes:
        id: kebab-case name, unique in the chapter.
        claim: the claim in one sentence.
        paper: the paper's figure as text, or "theorem", or "not public".
        source: where in the paper.
        kind: "value", "timing" (judged from a quiet machine's table, never compared in CI) or "proof".
        rule: computes the verdict.
        refuted_by: a value, (value, interval) or dict of checks for which `rule` says "not reproduced";
            None only for `OutOfReach`. A test applies it through `refutation`.
        unit: of the measured number.
        rtol: how far a re-run's number may lie from the committed one, relative.
    """

    id: str
    claim: str
    paper: str
    source: str
    kind: str
    rule: Rule
    refuted_by: Any
    unit: str = ""
    rtol: int | float = 0.05

    def __post_init__(self) -> None:
        _kebab(self.id)
        for name in ("claim", "paper", "source"):
            if not getattr(self, name).strip():
                raise ValueError(f"{name} of claim {self.id!r} must not be empty")
        if self.kind not in KINDS:
            raise ValueError(
                f"kind of claim {self.id!r} must be one of {', '.join(KINDS)}, got {self.kind!r}"
            )
        if not isinstance(self.rule, OutOfReach) and (self.kind == "proof") != isinstance(self.rule, Argued):
            raise ValueError(f"claim {self.id!r}: a proof is judged by Argued, and nothing else is")
        if number("rtol", self.rtol) < 0:
            raise ValueError(f"rtol of claim {self.id!r} must not be negative, got {self.rtol}")

    def refutation(self) -> str:
        """The rule's verdict on `refuted_by`; a sound claim gives "not reproduced" (or is out of reach).

        A plain value stands for a measurement without spread, its interval (value, value).

        Raises:
            ValueError: `refuted_by` is None although the rule judges something.
        """
        if self.refuted_by is None:
            if not isinstance(self.rule, OutOfReach):
                raise ValueError(
                    f"refuted_by of claim {self.id!r} must be given: its rule judges a measurement"
                )
            return self.rule.verdict()
        if isinstance(self.refuted_by, Mapping):
            return self.rule.verdict(checks=self.refuted_by)
        if isinstance(self.refuted_by, tuple):
            value, interval = self.refuted_by
            return self.rule.verdict(value, interval)
        return self.rule.verdict(self.refuted_by, (self.refuted_by, self.refuted_by))


class Ledger:
    """The open ledger of one chapter; see `open`."""

    def __init__(self, chapter: str, slug: str, claims: Sequence[Claim]) -> None:
        if not re.fullmatch(r"\d\d", chapter):
            raise ValueError(f"chapter must be two digits like '01', got {chapter!r}")
        if not re.fullmatch(r"[a-z][a-z0-9_]*", slug):
            raise ValueError(f"slug must be a package name like 'nested_expectations', got {slug!r}")
        if not claims:
            raise ValueError("claims must hold at least one claim, got none")
        self.claims = {claim.id: claim for claim in claims}
        if len(self.claims) < len(claims):
            ids = [claim.id for claim in claims]
            raise ValueError(
                f"claims: each id once, got {sorted({i for i in ids if ids.count(i) > 1})} again"
            )
        self.chapter, self.slug, self.profile = chapter, slug, profile.current().label
        self.path = _folder() / f"{chapter}_{slug}.{self.profile}.json"
        self._rows: dict[str, dict[str, Any]] = {}
        self._findings: dict[str, dict[str, Any]] = {}
        self._write()  # a run that stops half-way must not leave the verdicts of the run before

    def judge(
        self,
        id: str,
        measured: SupportsFloat | None = None,
        interval: Iterable[SupportsFloat] | None = None,
        scale: str = "",
        checks: Mapping[str, bool | np.bool_] | None = None,
    ) -> str:
        """Compute, record and print the verdict on one claim.

        Args:
            id: the claim's.
            measured: the number, finite, in the claim's unit. For a proof it may be left out: then the
                number of passed checks is recorded.
            interval: its 95 % interval (low, high).
            scale: at what size this was measured, in words.
            checks: name -> passed, for a proof.

        Returns:
            The verdict, one of `VERDICTS`.

        Raises:
            ValueError: unknown id, a number that is not finite, or a second judgement with other numbers.
        """
        if id not in self.claims:
            raise ValueError(f"id {id!r} is no claim of {self.slug}, the claims are {', '.join(self.claims)}")
        claim = self.claims[id]
        value = None if measured is None else number("measured", measured)
        ends = bounds(interval)
        verdict = claim.rule.verdict(value, ends, checks)
        unit = claim.unit
        if isinstance(claim.rule, Argued) and value is None:
            value, unit = claim.rule.passed(checks), f"of {len(claim.rule.checks)} checks"
        row: dict[str, Any] = {
            "id": id,
            "claim": claim.claim,
            "paper": claim.paper,
            "source": claim.source,
            "kind": claim.kind,
            "rule": str(claim.rule),
            "refuted_by": _plain(claim.refuted_by),
            "measured": value,
            "unit": unit,
            "interval": _plain(ends),
            "scale": scale,
            "rtol": claim.rtol,
            "verdict": verdict,
        }
        if self._rows.get(id, row) != row:
            raise ValueError(
                f"id {id!r} was judged with other numbers before: {_measured(self._rows[id])}, "
                f"now {_measured(row)}; open the ledger anew to judge again"
            )
        self._rows[id] = row
        self._write()
        seen = _measured(row)
        print(f"{_SIGNS[verdict]} {id}: {verdict}{f' — {seen}' if seen else ''} (rule: {row['rule']})")
        return verdict

    def finding(self, id: str, text: str, measured: SupportsFloat) -> None:
        """Record and print something that the paper does not say, or that corrects it.

        Raises:
            ValueError: the text is empty, the number is not finite, or the id was used for another finding.
        """
        _kebab(id)
        if not text.strip():
            raise ValueError(f"text of finding {id!r} must not be empty")
        row: dict[str, Any] = {"id": id, "text": text, "measured": number("measured", measured)}
        if self._findings.get(id, row) != row:
            raise ValueError(f"id {id!r} already names a finding: {self._findings[id]}, now {row}")
        self._findings[id] = row
        self._write()
        print(f"! finding {id}: {text} ({_short(row['measured'])})")

    def as_dict(self) -> dict[str, Any]:
        """What the file holds: judged claims in the order of the claims, then the findings."""
        return {
            "chapter": self.chapter,
            "slug": self.slug,
            "profile": self.profile,
            "claims": [self._rows[id] for id in self.claims if id in self._rows],
            "findings": list(self._findings.values()),
        }

    def show(self) -> None:
        """Display every claim with its verdict as a table; a claim without a verdict is shown as such."""
        from IPython.display import display

        display(_Sheet(self))  # type: ignore[no-untyped-call]

    def _write(self) -> None:
        text = json.dumps(self.as_dict(), indent=1, ensure_ascii=False, allow_nan=False)
        write_atomically(self.path, text + "\n")


class _Sheet:
    """The ledger as a table: HTML for a notebook, lines for a terminal."""

    COLUMNS = ("claim", "verdict", "paper", "measured", "scale", "rule")  # a phone shows the first two

    def __init__(self, ledger: Ledger) -> None:
        blank = {"measured": None, "interval": None, "scale": "", "verdict": ""}
        self.slug = ledger.slug
        self.findings = list(ledger._findings.values())
        self.rows = []
        for claim in ledger.claims.values():
            row = ledger._rows.get(claim.id, {**blank, "unit": claim.unit})
            verdict = f"{_SIGNS[row['verdict']]} {row['verdict']}" if row["verdict"] else "not judged yet"
            seen = _measured(row)
            self.rows.append((claim.claim, verdict, claim.paper, seen, row["scale"], str(claim.rule)))

    def _repr_html_(self) -> str:
        # No colour of its own: the page's text colour and translucent lines do in light and in dark.
        line = "1px solid rgba(128,128,128,.4)"
        cell = f"padding:.4em .6em;text-align:left;vertical-align:top;border-bottom:{line}"
        head = "".join(f'<th scope="col" style="{cell}">{name}</th>' for name in self.COLUMNS)
        body = ""
        for first, *others in self.rows:
            cells = "".join(f'<td style="{cell}">{html.escape(text)}</td>' for text in others)
            first = (
                f'<th scope="row" style="{cell};font-weight:normal;min-width:11em">{html.escape(first)}</th>'
            )
            body += f"<tr>{first}{cells}</tr>\n"
        notes = "".join(
            f"<li>{html.escape(f['text'])} ({html.escape(_short(f['measured']))})</li>" for f in self.findings
        )
        found = f"<p>What we found beside the claims:</p><ul>{notes}</ul>" if notes else ""
        return (
            f'<div class="lab-ledger" role="region" aria-label="Claims ledger of {self.slug}" tabindex="0" '
            'style="overflow-x:auto;max-width:100%">\n'
            '<table style="border-collapse:collapse;color:inherit;background:transparent;font-size:.9em">\n'
            f'<caption style="text-align:left;color:inherit">The claims and what became of them</caption>\n'
            f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>\n{found}</div>"
        )

    def __repr__(self) -> str:
        lines = [f"{row[1]}: {row[0]} (paper: {row[2]}; {row[3] or 'nothing measured'})" for row in self.rows]
        lines += [f"! {f['text']} ({_short(f['measured'])})" for f in self.findings]
        return "\n".join(lines)


def open(chapter: str, slug: str, claims: Sequence[Claim]) -> Ledger:
    """Open a chapter's ledger for this run, empty; in one notebook of the chapter only.

    Every entry rewrites `NN_slug.<profile>.json` in `$ICML26_LEDGER_DIR`, or else in `_build/ledgers` under
    the nearest parent folder that holds `_config.yml` (under the working folder, when there is none).

    Args:
        chapter: two digits, e.g. "01".
        slug: the chapter's package name.
        claims: the chapter's claims, in the order of the table.

    Raises:
        ValueError: a malformed chapter or slug, no claims, or two claims with one id.
    """
    return Ledger(chapter, slug, claims)


def compare(built: Mapping[str, Any], committed: Mapping[str, Any]) -> list[str]:
    """What differs between a fresh ledger and the committed one; empty when they agree.

    Verdicts and texts must be equal, numbers within the committed `rtol` (findings: 0.05); an interval's
    ends may move by `rtol` of themselves or of the measured number, whichever is larger. Of a claim of kind
    "timing" neither verdict nor numbers are compared.
    """
    problems = [
        f"{key}: {built.get(key)!r} was committed as {committed.get(key)!r}"
        for key in ("chapter", "slug", "profile")
        if built.get(key) != committed.get(key)
    ]
    for group in ("claims", "findings"):
        new = {row["id"]: row for row in built.get(group, ())}
        old = {row["id"]: row for row in committed.get(group, ())}
        problems += [f"{group}: {id} is missing from this run" for id in old if id not in new]
        problems += [f"{group}: {id} is not in the committed ledger" for id in new if id not in old]
        for id in new.keys() & old.keys():
            problems += [f"{group}: {id}: {text}" for text in _row_differences(new[id], old[id])]
    return sorted(problems)


def _row_differences(new: Mapping[str, Any], old: Mapping[str, Any]) -> list[str]:
    timing = old.get("kind") == "timing"
    skipped = {"measured", "interval"} | ({"verdict"} if timing else set())
    problems = [
        f"{key} is {new.get(key)!r}, committed {old.get(key)!r}"
        for key in sorted((new.keys() | old.keys()) - skipped)
        if new.get(key) != old.get(key)
    ]
    if timing:
        return problems
    rtol = old.get("rtol", 0.05)
    size = math.fabs(old.get("measured") or 0)
    if not math.isfinite(size):
        size = 0.0  # nothing is near to what is not finite, the number itself included
    for key in ("measured", "interval"):
        a, b = new.get(key), old.get(key)
        if a is None or b is None:
            close = a is b
        else:
            pairs = zip(a, b, strict=True) if key == "interval" else [(a, b)]
            close = all(
                math.isfinite(y) and math.fabs(x - y) <= rtol * max(math.fabs(y), size) + 1e-12
                for x, y in pairs
            )
        if not close:
            problems.append(f"{key} is {a}, committed {b}, more than rtol {rtol} apart")
    return problems


def write_atomically(path: Path, text: str) -> None:
    """Write a text file so that a reader sees the old or the new content, never a half; makes the folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        draft.write_text(text, encoding="utf-8", newline="\n")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _folder() -> Path:
    if chosen := os.environ.get("ICML26_LEDGER_DIR"):
        return Path(chosen)
    here = Path.cwd()
    root = next((folder for folder in (here, *here.parents) if (folder / "_config.yml").is_file()), here)
    return root / "_build" / "ledgers"


def _kebab(id: str) -> None:
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", id):
        raise ValueError(f"id must be lower-case words joined by hyphens, got {id!r}")


def _plain(value: Any) -> Any:
    """What JSON can hold of a number, a (nested) tuple or a dict of checks."""
    if isinstance(value, Mapping):
        return {name: bool(passed) for name, passed in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return None if value is None else number("refuted_by", value)


def _short(value: int | float) -> str:
    """Four digits and a point for floats, so that 7.000 stays a float to whoever compares outputs."""
    return str(value) if isinstance(value, int) else f"{value:#.4g}"


def _measured(row: Mapping[str, Any]) -> str:
    if row["measured"] is None:
        return ""
    ends = row["interval"]
    spread = f" [{_short(ends[0])}, {_short(ends[1])}]" if ends is not None else ""
    return f"{_short(row['measured'])}{' ' if row['unit'] else ''}{row['unit']}{spread}"
