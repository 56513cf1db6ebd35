"""Eight tasks with exact answers for the small models: `reverse:4817=7184`.

Every prompt belongs to exactly one of two pools, by a checksum of its own text: nine tenths are for training,
one tenth is only ever asked in an evaluation (a twentieth to discover with, a twentieth to test on). So no seed can
leak a question into the training stream.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from icml26.language.skills import HALVES, Item, Skill

__all__ = ["LETTERS", "SKILLS", "WORDS", "held_out", "training_line"]

LETTERS = tuple("abcdefghijklmnopqrstuvwxyz")
# Short common nouns; the tokenizer is trained to keep each, with the space before it, in one token.
_NOUNS = (
    "ant arm bag bed bee boat book box boy bread bus cake cat chair clock coat corn cow cup desk dog door duck egg "
    "fish flag fork fox frog girl glass goat hand hat hen horse house jam key king lamp leaf lion map milk moon "
    "mouse nut owl pen pig pin pot queen rain ring road rope rose salt sheep ship shoe snow sock soup spoon star "
    "stone sun table tree wolf "
)
WORDS = tuple(_NOUNS.split())
_OPEN, _CLOSE = "([{<", ")]}>"
_ITEMS = LETTERS + WORDS

Draw = Callable[[np.random.Generator], tuple[str, str]]


def held_out(prompt: str, half: str | None = None) -> bool:
    """Whether a prompt belongs to the evaluation's tenth; or to its half "discovery" or "test"."""
    number = zlib.crc32(prompt.encode()) % 20
    return number in (0, 10) if half is None else number == {"discovery": 0, "test": 10}[half]


def _items(rng: np.random.Generator, low: int, high: int) -> list[str]:
    """Between `low` and `high` different words and letters."""
    return [_ITEMS[i] for i in rng.choice(len(_ITEMS), int(rng.integers(low, high + 1)), replace=False)]


def _spaced(items: list[str]) -> str:
    return "".join(f" {item}" for item in items)


def _copy(rng: np.random.Generator) -> tuple[str, str]:
    items = _items(rng, 3, 6)
    return f"copy:{_spaced(items)} =", _spaced(items)


def _reverse(rng: np.random.Generator) -> tuple[str, str]:
    digits = "".join(map(str, rng.integers(0, 10, int(rng.integers(3, 7)))))
    return f"reverse:{digits}=", digits[::-1]


def _add(rng: np.random.Generator) -> tuple[str, str]:
    a, b = (int(n) for n in rng.integers(0, 50, 2))
    return f"add:{a}+{b}=", str(a + b)


def _count(rng: np.random.Generator) -> tuple[str, str]:
    letter, *others = (LETTERS[i] for i in rng.choice(26, 4, replace=False))
    times, rest = int(rng.integers(1, 8)), int(rng.integers(0, 5))
    row = [letter] * times + [others[i] for i in rng.integers(0, 3, rest)]
    return f"count {letter}:{_spaced([row[i] for i in rng.permutation(len(row))])} =", str(times)


def _first(rng: np.random.Generator) -> tuple[str, str]:
    items = _items(rng, 4, 8)
    return f"first:{_spaced(items)} =", f" {items[0]}"


def _last(rng: np.random.Generator) -> tuple[str, str]:
    items = _items(rng, 4, 8)
    return f"last:{_spaced(items)} =", f" {items[-1]}"


def _close(rng: np.random.Generator) -> tuple[str, str]:
    # A walk that opens more than it closes; the answer closes what is still open, innermost first.
    stack: list[int] = []
    shown: list[str] = []
    for _ in range(int(rng.integers(4, 10))):
        if stack and (len(stack) == 4 or rng.random() < 0.35):
            shown.append(_CLOSE[stack.pop()])
        else:
            stack.append(int(rng.integers(0, 4)))
            shown.append(_OPEN[stack[-1]])
    if not stack:
        stack.append(int(rng.integers(0, 4)))
        shown.append(_OPEN[stack[-1]])
    return f"close:{_spaced(shown)} =", _spaced([_CLOSE[i] for i in reversed(stack)])


def _lookup(rng: np.random.Generator) -> tuple[str, str]:
    size = int(rng.integers(3, 7))
    keys = [LETTERS[i] for i in rng.choice(26, size, replace=False)]
    values = [WORDS[i] for i in rng.choice(len(WORDS), size, replace=False)]
    asked = int(rng.integers(0, size))
    pairs = [text for pair in zip(keys, values, strict=True) for text in pair]
    return f"lookup {keys[asked]}:{_spaced(pairs)} =", f" {values[asked]}"


def _solve(prompt: str) -> str:
    """The answer worked out from the prompt's text alone, by other means than it was drawn."""
    head, body = prompt.removesuffix("=").rstrip().split(":", 1)
    name, _, key = head.partition(" ")
    words = body.split()
    match name:
        case "copy":
            return body
        case "reverse":
            return "".join(body[i] for i in range(len(body) - 1, -1, -1))
        case "add":
            return str(sum(map(int, re.findall(r"\d+", body))))
        case "count":
            return str(words.count(key))
        case "first" | "last":
            return " " + (words[0] if name == "first" else words[-1])
        case "lookup":
            return f" {words[words.index(key) + 1]}"
        case "close":
            text = "".join(words)
            while (shorter := re.sub(r"\(\)|\[\]|\{\}|<>", "", text)) != text:
                text = shorter
            return _spaced(list(text[::-1].translate(str.maketrans(_OPEN, _CLOSE))))
    raise ValueError(f"prompt: got {prompt!r}, expected one of {', '.join(_DRAWS)}")


_DRAWS: dict[str, Draw] = {
    "copy": _copy,
    "reverse": _reverse,
    "add": _add,
    "count": _count,
    "first": _first,
    "last": _last,
    "close": _close,
    "lookup": _lookup,
}
_ABOUT = {
    "copy": "repeat three to six words and letters",
    "reverse": "three to six digits backwards",
    "add": "the sum of two numbers below 50",
    "count": "how often a letter occurs in a row of at most eleven",
    "first": "the first of four to eight words and letters",
    "last": "the last of four to eight words and letters",
    "close": "close the brackets that are still open, innermost first",
    "lookup": "the word that follows a key in a list of three to six pairs",
}


def _drawn(draw: Draw, rng: np.random.Generator, wanted: Callable[[str], bool]) -> Item:
    while True:
        prompt, answer = draw(rng)
        if wanted(prompt):
            return Item(prompt, answer)


def _skill(name: str, draw: Draw) -> Skill:
    halves: dict[str, Callable[[np.random.Generator], Item]] = {
        half: partial(_drawn, draw, wanted=partial(held_out, half=half)) for half in HALVES
    }
    return Skill(name, partial(_drawn, draw, wanted=held_out), _solve, _ABOUT[name], halves=halves)


SKILLS: dict[str, Skill] = {name: _skill(name, draw) for name, draw in _DRAWS.items()}


def training_line(rng: np.random.Generator) -> Item:
    """One training question of a random skill; never one that an evaluation asks."""
    return _drawn(list(_DRAWS.values())[int(rng.integers(len(_DRAWS)))], rng, lambda prompt: not held_out(prompt))


def training_lines(seed: int) -> Iterator[Item]:
    """Training questions without end."""
    rng = np.random.default_rng(seed)
    while True:
        yield training_line(rng)
