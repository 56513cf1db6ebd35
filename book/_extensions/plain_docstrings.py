"""Shows docstrings as they are written: plain text with a little Markdown, instead of reStructuredText.

In the package a docstring may say |x|, 2**n, name_ or `code` and mean just that. This Sphinx extension turns
it into reStructuredText for autodoc, so that no author has to know those rules and no sign is lost. It
understands paragraphs, lists with "- ", indented blocks and fences (shown as they are), `code`, $maths$,
*emphasis*, doctests, and the sections Args, Returns, Raises and so on in Google's or numpy's form.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from typing import Any

FIELDS = {
    "args": "param",
    "arguments": "param",
    "parameters": "param",
    "returns": "returns",
    "yields": "returns",
    "raises": "raises",
    "attributes": "list",
}
HEADING = re.compile(r"(\w+):?")
ENTRY = re.compile(r"(\*{0,2}[\w.]+(?:, *\*{0,2}[\w.]+)*) ?(?:\(([^)]*)\))? ?:(?: +(.*))?$")
BULLET = re.compile(r"([-*]) +(?=\S)")
NUMBERED = re.compile(r"(\d+)[.)] +(?=\S)")
# In this order: roles and addresses stay; code, maths and emphasis are translated; all else is text.
INLINE = re.compile(
    r"(?P<keep>:[a-z:]+:`[^`]+`|https?://[^\s<>)\]\"'`]*[^\s<>)\]\"'`.,;:])"
    r"|``(?P<code2>[^`]*[^\s`][^`]*)``|`(?P<code>[^`]*[^\s`][^`]*)`|\$(?P<maths>[^\s$`](?:[^$`]*[^\s$`\\])?)\$"
    r"|(?<![\w*\\])\*\*(?P<strong>[^\s*](?:[^*]*[^\s*])?)\*\*(?![\w*])"
    r"|(?<![\w*\\])\*(?P<emphasis>[^\s*](?:[^*]*[^\s*])?)\*(?![\w*])"
)


def escape(text: str) -> str:
    return re.sub(r"([\\*|`_])", r"\\\1", text)


def inline(text: str) -> str:
    """One paragraph's text as reStructuredText."""
    text = " ".join(text.split())
    out, end = "", 0
    for found in INLINE.finditer(text):
        out += escape(text[end : found.start()])
        kind = found.lastgroup or ""
        content = found.group(kind)
        made = {
            "keep": lambda c: c,
            "code": lambda c: f"``{c.strip()}``",
            "code2": lambda c: f"``{c.strip()}``",
            "maths": lambda c: f":math:`{c}`",
            "strong": lambda c: f"**{escape(c)}**",
            "emphasis": lambda c: f"*{escape(c)}*",
        }[kind](content)
        # An escaped blank shows nothing and lets markup stand beside a letter.
        before = "\\ " if out and not out[-1].isspace() else ""
        after = "\\ " if found.end() < len(text) and not text[found.end()].isspace() else ""
        out += before + made + after
        end = found.end()
    out += escape(text[end:])
    if out.endswith("::"):
        out = out[:-2] + "\\:\\:"
    # Text that reStructuredText would take for a list, a field, a comment or an option.
    return "\\ " + out if re.match(r"[^\w`:]|:(?!math)|\w{1,4}[.)] ", out) else out


def indent_of(line: str) -> int:
    return len(line) - len(line.lstrip())


def shift(lines: list[str], by: int) -> list[str]:
    return [" " * by + line if line else "" for line in lines]


class Text:
    """A docstring's lines, taken block by block from the front."""

    def __init__(self, lines: list[str]):
        self.lines = [line.rstrip() for line in lines]
        self.at = 0

    def more(self) -> bool:
        return self.at < len(self.lines)

    def line(self, ahead: int = 0) -> str:
        return self.lines[self.at + ahead] if self.at + ahead < len(self.lines) else ""

    def take(self, goes_on: Callable[[str], bool]) -> list[str]:
        start = self.at
        while self.more() and goes_on(self.line()):
            self.at += 1
        block = self.lines[start : self.at]
        while block and not block[-1]:
            block.pop()
        return block

    def take_indented(self, least: int = 1) -> list[str]:
        return self.take(lambda line: not line or indent_of(line) >= least)


def entries(block: list[str]) -> list[tuple[str, str, list[str]]]:
    """(names, type, text) of each "name: text" with its indented lines; other lines have no name."""
    found: list[tuple[str, str, list[str]]] = []
    for line in block:
        match = ENTRY.match(line)
        if match and not line.startswith(" "):
            found.append((match[1], match[2] or "", [match[3] or ""]))
        elif found:
            found[-1][2].append(line)
        else:
            found.append(("", "", [line]))
    return found


def section(kind: str, block: list[str]) -> list[str]:
    if kind == "returns":
        body = convert(block)
        return [f":returns: {body[0]}", *shift(body[1:], 4), ""] if body else []
    out: list[str] = []
    for names, _, text in entries(block):
        body = convert([text[0], *textwrap.dedent("\n".join(text[1:])).split("\n")]) or [""]
        if not names:
            out += [*body, ""]
        elif kind == "list":
            out += [f"- ``{names}``: {body[0]}", *shift(body[1:], 2), ""]
        else:
            for name in names.replace("*", "").split(","):
                out += [f":{kind} {name.strip()}: {body[0]}", *shift(body[1:], 4)]
    return [*out, ""]


def heading(text: Text) -> tuple[str, bool] | None:
    """The kind of the section that starts here, and whether it is underlined as in numpy's form."""
    match = HEADING.fullmatch(text.line())
    kind = FIELDS.get(match[1].lower()) if match else None
    if kind and re.fullmatch(r"-{3,}", text.line(1)):
        return kind, True
    if kind and text.line().endswith(":") and text.line(1).startswith(" "):
        return kind, False
    return None


def convert(lines: list[str]) -> list[str]:
    """A docstring (dedented) as reStructuredText."""
    text, out = Text(lines), []
    while text.more():
        line = text.line()
        if not line:
            text.at += 1
        elif line.startswith(">>>"):
            out += [*text.take(bool), ""]
        elif fence := re.match(r"(```+|~~~+)", line):
            text.at += 1
            block = text.take(lambda row, end=fence[1]: not row.startswith(end))  # type: ignore[misc]
            text.at += 1
            if any(row.strip() for row in block):  # an empty fence shows nothing
                out += ["::", "", *shift(block, 4), ""]
        elif line.startswith((" ", "|")):
            block = text.take(lambda row, first=line[0]: not row or row.startswith(first))  # type: ignore[misc]
            out += ["::", "", *shift(textwrap.dedent("\n".join(block)).split("\n"), 4), ""]
        elif start := heading(text):
            kind, underlined = start
            text.at += 2 if underlined else 1
            if underlined and kind != "returns":
                block = text.take(lambda row: bool(row))
            else:
                block = text.take(bool) if underlined else text.take_indented()
            out += section(kind, textwrap.dedent("\n".join(block)).split("\n"))
        elif bullet := BULLET.match(line) or NUMBERED.match(line):
            mark = "-" if bullet[1] in "-*" else f"{bullet[1]}."
            text.at += 1
            inner = textwrap.dedent("\n".join(text.take_indented())).split("\n")
            body = convert([line[bullet.end() :], *inner]) or [""]
            out += [f"{mark} {body[0]}", *shift(body[1:], len(mark) + 1)]
            if not out[-1] and (BULLET if mark == "-" else NUMBERED).match(text.line()):
                out.pop()
        else:
            out += [inline(" ".join(paragraph(text))), ""]
    return out


def paragraph(text: Text) -> list[str]:
    """Lines up to a blank one, or to a list or an indented block after a colon."""
    taken: list[str] = []

    def goes_on(line: str) -> bool:
        if not line:
            return False
        if taken and taken[-1].endswith(":") and (line.startswith(" ") or BULLET.match(line)):
            return False
        if taken and heading(text):
            return False
        taken.append(line)
        return True

    text.take(goes_on)
    return taken


def process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = convert(list(lines))


def setup(app: Any) -> dict[str, Any]:
    app.connect("autodoc-process-docstring", process)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
