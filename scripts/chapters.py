"""The chapters of the book as book/chapters.yml describes them."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import yaml

NOTICE = "Made by scripts/pages.py; edit the sources it names, then run it again."


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


def one_line(text: str) -> str:
    return " ".join(str(text).split())


def markdown(text: str) -> str:
    """The text as MyST shows it literally: no HTML, no markup, no maths."""
    return re.sub(r"([\\`*_{}\[\]<>#$|~&^!()])", r"\\\1", one_line(text))
