"""Ninety long Wikipedia articles that need no network: gensim's tests carry a shortened Wikipedia dump.

The text is CC BY-SA, by Wikipedia's contributors. It is read from the installed package, cleaned once and
cached; no article is part of this repository. Splits are by article, never by position, so that no sentence
of a test article was ever trained on.
"""

from __future__ import annotations

import bz2
import functools
import hashlib
import json
import os
import re
import tempfile
from importlib.util import find_spec
from pathlib import Path

from icml26.lab.download import ChecksumError, cache_dir, locked

__all__ = ["HELD_OUT", "SHA256", "articles", "sha256", "split"]

HELD_OUT: dict[str, tuple[str, ...]] = {
    "validation": ("Autism", "Albedo", "Algeria", "Altruism"),
    "test": ("Alabama", "Aristotle", "Anthropology", "Achilles"),
}
# Of the cleaned articles as `sha256()` takes it: another gensim that carries or cleans the dump differently is noticed.
SHA256 = "2080b6f5e29be2e0548202e08080d033d2205ea41bb9d0bea2c715af8c15c010"

_DUMP = "enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2"
_MARKUP = tuple("*#:;|!{}=")
_WORDS = 25
_CHARACTERS = 1500


def sha256(texts: dict[str, str]) -> str:
    """SHA-256 of articles, as 64 hex digits of their JSON in their own order."""
    return hashlib.sha256(json.dumps(texts, ensure_ascii=False).encode()).hexdigest()


@functools.lru_cache(maxsize=1)
def _articles() -> dict[str, str]:
    path = cache_dir() / "text" / f"wiki-{SHA256[:12]}.json"
    if (texts := _read(path)) is not None:
        return texts
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(f"text {path.name}"):
        if (texts := _read(path)) is not None:  # another process made it while we waited
            return texts
        texts = extract(dump())
        if sha256(texts) != SHA256:
            raise ChecksumError(
                f"the articles in gensim's test data have sha256 {sha256(texts)}, expected {SHA256}: "
                "this gensim carries or cleans the dump differently; 4.3 and 4.4 are known to agree"
            )
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as handle:
            json.dump(texts, handle, ensure_ascii=False)
        os.replace(handle.name, path)
    return texts


def _read(path: Path) -> dict[str, str] | None:
    """The cached articles, or None when they are missing or damaged."""
    try:
        texts = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return texts if isinstance(texts, dict) and sha256(texts) == SHA256 else None


def articles() -> dict[str, str]:
    """Title to text of all articles, in the dump's order. About ten seconds the first time, then cached.

    Raises ImportError (gensim is not installed), ChecksumError (it carries other articles).
    """
    return dict(_articles())


def split(name: str) -> list[str]:
    """The texts of one split: four articles each for `validation` and `test`, the rest is `train`.

    Raises ValueError for another name.
    """
    if name not in ("train", "validation", "test"):
        raise ValueError(f"name: got {name!r}, expected 'train', 'validation' or 'test'")
    every = _articles()
    if name != "train":
        return [every[title] for title in HELD_OUT[name]]
    held = {title for titles in HELD_OUT.values() for title in titles}
    return [text for title, text in every.items() if title not in held]


def dump() -> Path:
    """The compressed dump inside the installed gensim.

    Raises ImportError (no gensim), FileNotFoundError (a gensim without its test data).
    """
    spec = find_spec("gensim")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("the Wikipedia articles come with gensim: pip install 'icml26[language]'")
    path = Path(spec.submodule_search_locations[0]) / "test" / "test_data" / _DUMP
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} is missing: this gensim was installed without its test data; "
            "pip install --force-reinstall --no-deps gensim brings them"
        )
    return path


def extract(path: Path) -> dict[str, str]:
    """Clean articles from a MediaWiki dump (bz2): paragraphs of 25 words or more, articles of 1,500 characters or more.

    Templates, tables, lists, headings and reference marks are dropped; redirects and other name spaces skipped.
    """
    from gensim.corpora.wikicorpus import extract_pages, filter_wiki

    texts: dict[str, str] = {}
    with bz2.open(path, "rt", encoding="utf-8") as handle:
        for title, source, _ in extract_pages(handle, filter_namespaces=("0",)):
            if source is None or source.lstrip().upper().startswith("#REDIRECT"):
                continue
            text = "\n\n".join(filter(None, map(_paragraph, filter_wiki(source).split("\n"))))
            if len(text) >= _CHARACTERS:
                texts[title] = text
    return texts


def _paragraph(line: str) -> str:
    """One cleaned paragraph, or nothing when it is markup or too short to be prose."""
    line = line.strip()
    if not line or line.startswith(_MARKUP):
        return ""
    line = re.sub(r"'{2,}", "", line).replace("[", "").replace("]", "")
    line = re.sub(r"\s+", " ", line).strip()
    return line if len(line.split()) >= _WORDS else ""
