"""Sentences whose numbers come from the run."""

import string
from typing import SupportsFloat

from icml26.lab.rules import number


class Prose:
    """Markdown for a notebook; the same words for a terminal."""

    def __init__(self, text: str) -> None:
        self.text = text

    def _repr_markdown_(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text


def say(template: str, /, **numbers: SupportsFloat) -> None:
    """Display a Markdown sentence, its numbers filled in from the run.

    `lab.say("The slope is {slope:.2f}.", slope=fit.slope)`. A float without a format is shown with four
    significant digits. Braces of maths are doubled: `$\\frac{{1}}{{2}}$`.

    Args:
        template: the sentence, with one named field per number.
        numbers: the finite numbers, each used.

    Raises:
        TypeError: a value is no number.
        ValueError: a field is unnamed or not given, a number is unused or not finite, or there is no field
            at all (such a sentence belongs in a Markdown cell).
    """
    from IPython.display import display

    display(Prose(_filled(template, numbers)))  # type: ignore[no-untyped-call]


def _filled(template: str, numbers: dict[str, SupportsFloat]) -> str:
    values = {name: number(name, value) for name, value in numbers.items()}
    words: list[str] = []
    used: set[str] = set()
    for text, field, spec, conversion in string.Formatter().parse(template):
        words.append(text)
        if field is None:
            continue
        if not field.isidentifier():
            raise ValueError(f"template: each field must be a plain name like {{slope:.2f}}, got {{{field}}}")
        if conversion or (spec and "{" in spec):
            raise ValueError(f"template: field {field!r} takes a plain format, got !{conversion}:{spec}")
        if field not in values:
            raise ValueError(f"template: no number given for {{{field}}}, only {sorted(values)}")
        value = values[field]
        default = "" if isinstance(value, int) else ".4g"
        words.append(format(value, spec or default))
        used.add(field)
    if unused := sorted(set(values) - used):
        raise ValueError(f"template: the numbers {unused} are given but not said")
    if not used:
        raise ValueError(f"template must hold at least one number, got {template!r}")
    return "".join(words)
