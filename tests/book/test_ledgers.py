"""The committed ledgers are what the notebooks compute: a changed number turns the check red."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ledgers

ROOT = Path(__file__).resolve().parents[2]

RUN = """\
from icml26 import lab
from icml26.lab.ledger import AtMost, Claim, Within

shared = dict(claim="it is so", paper="2.0", source="Table 1")
claims = [
    Claim(id="slope", kind="value", rule=Within(2.0, rel=0.1), refuted_by=1.0, rtol=0.02, **shared),
    Claim(id="speed", kind="timing", rule=AtMost(3.0), refuted_by=9.0, unit="s", **shared),
]
ledger = lab.ledger.open("01", "small", claims)
ledger.judge("slope", measured=2.05, interval=(2.0, 2.1))
ledger.judge("speed", measured=1.5)
ledger.finding("gap", "there is a gap", measured=0.4)
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ledger that a run of a notebook's code wrote, through icml26.lab."""
    root = tmp_path_factory.mktemp("ledger")
    (root / "_config.yml").touch()
    (root / "notebooks").mkdir()
    kept = {k: v for k, v in os.environ.items() if k != "ICML26_LEDGER_DIR" and not k.startswith("COV_")}
    environment = {**kept, "ICML26_PROFILE": "cpu", "PYTHONPATH": str(ROOT / "src")}
    subprocess.run([sys.executable, "-c", RUN], cwd=root / "notebooks", env=environment, check=True)
    return root / "_build/ledgers/01_small.cpu.json"


@pytest.fixture
def book(small_book: Path, written: Path) -> Path:
    """The small book after that run, its ledger adopted as the committed one."""
    ledgers.built(small_book).mkdir(parents=True)
    shutil.copy(written, ledgers.built(small_book))
    assert ledgers.main(["--adopt", "01", "--root", str(small_book)]) == 0
    return small_book


def _change(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    ledger = json.loads(path.read_text(encoding="utf-8"))
    change(ledger)
    path.write_text(json.dumps(ledger), encoding="utf-8")


def test_an_adopted_ledger_agrees(book: Path) -> None:
    assert ledgers.check(book) == []
    assert ledgers.main(["--check", "--root", str(book)]) == 0


CHANGES: dict[str, tuple[Callable[[dict[str, Any]], object], bool]] = {
    "a number within its rtol": (lambda d: d["claims"][0].update(measured=2.07), True),
    "a number beyond its rtol": (lambda d: d["claims"][0].update(measured=2.15), False),
    "an interval": (lambda d: d["claims"][0].update(interval=[1.5, 2.1]), False),
    "a verdict": (lambda d: d["claims"][0].update(verdict="not reproduced"), False),
    "a timing": (lambda d: d["claims"][1].update(measured=2.9), True),
    "a finding": (lambda d: d["findings"][0].update(measured=0.5), False),
    "a claim less": (lambda d: d["claims"].pop(), False),
    "a claim more": (lambda d: d["claims"].append({**d["claims"][0], "id": "extra"}), False),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("which", ["committed", "built"])
def test_a_change_on_either_side_is_seen(name: str, which: str, book: Path) -> None:
    change, passes = CHANGES[name]
    path = book / "book/ledgers/01_small.json"
    if which == "built":
        path = book / "_build/ledgers/01_small.cpu.json"
    _change(path, change)
    assert (ledgers.check(book) == []) == passes
    assert ledgers.main(["--check", "--root", str(book)]) == (0 if passes else 1)


def test_a_chapter_without_a_ledger_on_either_side_is_seen(book: Path) -> None:
    (book / "book/ledgers/01_small.json").unlink()
    assert "no ledger is committed" in ledgers.check(book)[0]
    assert ledgers.main(["--clear", "--root", str(book)]) == 0
    assert "the notebooks wrote no ledger" in ledgers.check(book)[0]


def test_a_committed_ledger_without_a_chapter_is_seen(book: Path) -> None:
    (book / "book/ledgers/09_gone.json").write_text("{}", encoding="utf-8")
    assert ledgers.check(book) == [
        "09_gone: the notebooks wrote no ledger (expected 09_gone.cpu.json in _build/ledgers)"
    ]


def test_chapters_are_chosen_by_number_slug_or_name() -> None:
    names = ["01_nested", "09_sinq", "12_persona"]
    assert ledgers.choose(names, "") == names
    for wanted in ("9", "09", "sinq", "09_sinq"):
        assert ledgers.choose(names, wanted) == ["09_sinq"]
    with pytest.raises(ValueError, match="chapter: got '3', expected a number or slug of 01_nested"):
        ledgers.choose(names, "3")


def test_nothing_is_adopted_that_no_run_wrote(small_book: Path) -> None:
    with pytest.raises(ValueError, match=r"01_small.cpu.json is missing; run the notebooks first"):
        ledgers.adopt("01_small", small_book)


BROKEN = {
    "a merge marker": ("<<<<<<< ours\n{}", "is no JSON"),
    "a list": ("[]", "holds a list"),
    "no claims": ('{"findings": []}', "claims is None"),
    "an empty claim": ('{"claims": [{}], "findings": []}', "an entry of claims lacks claim, id"),
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("folder", ["book/ledgers/01_small.json", "_build/ledgers/01_small.cpu.json"])
def test_what_is_no_ledger_is_named(name: str, folder: str, book: Path) -> None:
    text, words = BROKEN[name]
    (book / folder).write_text(text, encoding="utf-8")
    (line,) = ledgers.check(book)
    assert line.startswith(f"{Path(folder).name}: {words}")


@pytest.mark.parametrize(
    "change", [{"interval": [1.0]}, {"interval": [1.0, None]}, {"measured": "2"}, {"interval": ["1", "2"]}]
)
def test_a_number_edited_by_hand_is_named(change: dict[str, Any], book: Path) -> None:
    path = book / "book/ledgers/01_small.json"
    _change(path, lambda ledger: ledger["claims"][0].update(change))
    (line,) = ledgers.check(book)
    assert line.startswith("01_small.json: 'slope' has ")
    with pytest.raises(ValueError, match=r"^01_small\.json: 'slope' has "):
        ledgers.read(path)
