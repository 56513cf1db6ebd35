"""The ledger: what it writes, what it refuses, what it shows, and what CI's comparison catches."""

import copy
import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from icml26.lab import ledger
from icml26.lab.ledger import Argued, AtLeast, Claim, Direction, OutOfReach, Within

CLAIMS = (
    Claim("slope", "The error falls as 1/M", "-1", "Fig. 2", "value", Within(-1, abs=0.1), refuted_by=-0.5),
    Claim(
        "gain",
        "Ours wins <by> a third & more",
        "0.6",
        "Table 1",
        "value",
        Direction(1, paper=0.6),
        refuted_by=(0.3, (-0.1, 0.7)),
        unit="nats",
        rtol=0.1,
    ),
    Claim(
        "speed",
        "Ten times faster",
        "10 ×",
        "Section 5",
        "timing",
        AtLeast(10),
        refuted_by=9,
        unit="×",
        rtol=0.5,
    ),
    Claim(
        "theorem",
        "The estimator is unbiased",
        "theorem",
        "Theorem 3",
        "proof",
        Argued(("mean", "coupling")),
        refuted_by={"mean": True, "coupling": False},
    ),
    Claim(
        "hardware", "It runs on a device", "99 %", "Fig. 9", "value", OutOfReach("hire one"), refuted_by=None
    ),
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ICML26_PROFILE", "cpu")
    monkeypatch.delenv("ICML26_SMOKE", raising=False)
    monkeypatch.setenv("ICML26_LEDGER_DIR", str(tmp_path / "out"))
    return tmp_path / "out"


def _filled():
    book = ledger.open("01", "nested_expectations", CLAIMS)
    book.judge("theorem", checks={"mean": True, "coupling": np.True_})
    book.judge("slope", np.float32(-0.96875), (-1.0, -0.9), scale="D = 2, 2**14 queries")
    book.judge("gain", 0.5, interval=np.array([0.25, 0.75]))
    book.judge("speed", 12)
    book.judge("hardware")
    book.finding("heavy-tail", "The cost has no variance", 1.5)
    return book


def test_the_file_has_exactly_the_agreed_form(folder):
    book = _filled()
    written = json.loads((folder / "01_nested_expectations.cpu.json").read_text())
    assert written == book.as_dict()
    assert list(written) == ["chapter", "slug", "profile", "claims", "findings"]
    keys = ["id", "claim", "paper", "source", "kind", "rule", "refuted_by"]
    keys += ["measured", "unit", "interval", "scale", "rtol", "verdict"]
    assert [list(row) for row in written["claims"]] == [keys] * 5
    assert [row["id"] for row in written["claims"]] == [
        claim.id for claim in CLAIMS
    ]  # not the order of judging
    assert written["claims"][0] == {
        "id": "slope",
        "claim": "The error falls as 1/M",
        "paper": "-1",
        "source": "Fig. 2",
        "kind": "value",
        "rule": "within 0.1 of -1",
        "refuted_by": -0.5,
        "measured": -0.96875,
        "unit": "",
        "interval": [-1.0, -0.9],
        "scale": "D = 2, 2**14 queries",
        "rtol": 0.05,
        "verdict": "reproduced",
    }
    assert [row["verdict"] for row in written["claims"]] == [
        "reproduced",
        "direction reproduced",
        "reproduced",
        "argued",
        "out of reach here",
    ]
    assert written["claims"][1]["refuted_by"] == [0.3, [-0.1, 0.7]]
    assert written["claims"][3]["refuted_by"] == {"mean": True, "coupling": False}
    assert (written["claims"][3]["measured"], written["claims"][3]["unit"]) == (2, "of 2 checks")
    assert written["claims"][4]["measured"] is None
    assert written["findings"] == [{"id": "heavy-tail", "text": "The cost has no variance", "measured": 1.5}]


def test_every_entry_is_on_disk_at_once_and_nothing_else_is_left_there(folder):
    path = folder / "01_nested_expectations.cpu.json"
    book = ledger.open("01", "nested_expectations", CLAIMS)
    assert json.loads(path.read_text())["claims"] == []
    book.judge("speed", 3)
    assert json.loads(path.read_text())["claims"][0]["verdict"] == "not reproduced"
    book.finding("x", "seen", 1)
    assert len(json.loads(path.read_text())["findings"]) == 1
    assert [p.name for p in folder.iterdir()] == [path.name]


def test_a_new_run_forgets_the_old_verdicts(folder):
    _filled()
    ledger.open("01", "nested_expectations", CLAIMS)
    assert json.loads((folder / "01_nested_expectations.cpu.json").read_text())["claims"] == []


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    ledger.write_atomically(path, "old")
    monkeypatch.setattr(type(path), "replace", lambda self, target: (_ for _ in ()).throw(OSError("disk")))
    with pytest.raises(OSError, match="disk"):
        ledger.write_atomically(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_folder_is_the_book_s_or_the_working_one(tmp_path, monkeypatch):
    monkeypatch.setenv("ICML26_PROFILE", "cpu")
    monkeypatch.setenv("ICML26_SMOKE", "1")
    monkeypatch.delenv("ICML26_LEDGER_DIR", raising=False)
    deep = tmp_path / "book" / "notebooks"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    name = "02_x.cpu-smoke.json"  # a smoke run does not touch the real ledger
    with monkeypatch.context() as nowhere:  # whatever lies above the test's folder
        nowhere.setattr(Path, "is_file", lambda self: False)
        assert ledger.open("02", "x", CLAIMS).path == deep / "_build" / "ledgers" / name
    (tmp_path / "book" / "_config.yml").write_text("title: x")
    assert ledger.open("02", "x", CLAIMS).path == tmp_path / "book" / "_build" / "ledgers" / name
    monkeypatch.setenv("ICML26_LEDGER_DIR", str(tmp_path / "elsewhere"))
    assert ledger.open("02", "x", CLAIMS).path == tmp_path / "elsewhere" / name


def test_judging_again_needs_the_same_numbers(folder):
    book = _filled()
    before = book.as_dict()
    assert book.judge("gain", 0.5, interval=(0.25, 0.75)) == "direction reproduced"  # a cell run twice
    for other in ({"measured": 0.51, "interval": (0.25, 0.75)}, {"measured": 0.5, "interval": (0.2, 0.75)}):
        with pytest.raises(ValueError, match="'gain' was judged with other numbers before"):
            book.judge("gain", **other)
    book.finding("heavy-tail", "The cost has no variance", 1.5)
    with pytest.raises(ValueError, match="'heavy-tail' already names a finding"):
        book.finding("heavy-tail", "The cost has no variance", 1.6)
    assert book.as_dict() == before


def test_what_cannot_be_entered(folder):
    book = ledger.open("01", "nested_expectations", CLAIMS)
    with pytest.raises(
        ValueError, match="'slop' is no claim of nested_expectations, the claims are slope, gain"
    ):
        book.judge("slop", 1.0)
    for bad in (math.nan, math.inf):
        with pytest.raises(ValueError, match="measured must be finite"):
            book.judge("slope", bad)
        with pytest.raises(ValueError, match="measured must be finite"):
            book.finding("x", "text", bad)
        with pytest.raises(ValueError, match="interval must be finite"):
            book.judge("gain", 0.5, (bad, 1.0))
    with pytest.raises(ValueError, match="measured"):
        book.judge("slope")
    with pytest.raises(ValueError, match="95 % interval"):
        book.judge("gain", 0.5)
    with pytest.raises(ValueError, match="no measurement"):
        book.judge("hardware", 1.0)
    with pytest.raises(ValueError, match="text of finding 'x' must not be empty"):
        book.finding("x", " ", 1.0)
    with pytest.raises(ValueError, match="id must be lower-case words"):
        book.finding("Not Kebab", "text", 1.0)
    assert book.as_dict()["claims"] == book.as_dict()["findings"] == []


def test_what_is_no_ledger(folder):
    for chapter in ("1", "001", "xx"):
        with pytest.raises(ValueError, match="chapter must be two digits"):
            ledger.open(chapter, "x", CLAIMS)
    for slug in ("../x", "X", ""):
        with pytest.raises(ValueError, match="slug must be a package name"):
            ledger.open("01", slug, CLAIMS)
    with pytest.raises(ValueError, match="at least one claim"):
        ledger.open("01", "x", ())
    with pytest.raises(ValueError, match=r"each id once, got \['slope'\] again"):
        ledger.open("01", "x", (*CLAIMS, CLAIMS[0]))


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_each_claim_can_be_refuted(claim):
    expected = "out of reach here" if claim.refuted_by is None else "not reproduced"
    assert claim.refutation() == expected


def test_a_refutation_that_does_not_refute_is_seen():
    soft = Claim("soft", "c", "p", "s", "value", Within(1, abs=0.5), refuted_by=1.2)
    assert soft.refutation() == "reproduced"
    lazy = Claim("lazy", "c", "p", "s", "value", Within(1, abs=0.5), refuted_by=None)
    with pytest.raises(ValueError, match="refuted_by of claim 'lazy' must be given"):
        lazy.refutation()
    # A plain number is a measurement without spread, for rules that want an interval too.
    assert Claim("d", "c", "p", "s", "value", Direction(1), refuted_by=-1).refutation() == "not reproduced"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"id": "Not_Kebab"}, "id must be lower-case words"),
        ({"claim": " "}, "claim of claim 'a' must not be empty"),
        ({"paper": ""}, "paper of claim 'a' must not be empty"),
        ({"source": ""}, "source of claim 'a' must not be empty"),
        ({"kind": "speed"}, "kind of claim 'a' must be one of value, timing, proof"),
        ({"kind": "proof"}, "a proof is judged by Argued"),
        ({"rule": Argued(("x",))}, "a proof is judged by Argued"),
        ({"rtol": -0.1}, "rtol of claim 'a' must not be negative"),
        ({"rtol": math.nan}, "rtol must be finite"),
    ],
)
def test_a_malformed_claim(change, words):
    good = {"id": "a", "claim": "c", "paper": "p", "source": "s", "kind": "value", "rule": AtLeast(1)}
    Claim(**good, refuted_by=0)
    with pytest.raises(ValueError, match=words):
        Claim(**{**good, "refuted_by": 0, **change})


def test_each_judgement_prints_one_line(folder, capsys):
    _filled()
    assert capsys.readouterr().out.splitlines() == [
        "∴ theorem: argued — 2 of 2 checks "
        "(rule: the argument, and these finite checks pass: mean, coupling)",
        "✓ slope: reproduced — -0.9688 [-1.000, -0.9000] (rule: within 0.1 of -1)",
        "↗ gain: direction reproduced — 0.5000 nats [0.2500, 0.7500] "
        "(rule: 95 % interval above 0 and effect at least 0.2 above it (a third of the paper's 0.6))",
        "✓ speed: reproduced — 12 × (rule: at least 10)",
        "○ hardware: out of reach here (rule: out of reach here; recipe: hire one)",
        "! finding heavy-tail: The cost has no variance (1.500)",
    ]


class _Cells(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.texts = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.texts.append(data)


def test_the_table_reads_on_a_phone_in_the_dark_and_aloud(folder, monkeypatch):
    book = ledger.open("01", "nested_expectations", CLAIMS)
    book.judge("gain", 0.5, interval=(0.25, 0.75))
    book.finding("heavy-tail", "A < B", 1.5)
    shown = []
    monkeypatch.setattr("IPython.display.display", shown.append)
    book.show()
    (sheet,) = shown
    page = sheet._repr_html_()
    assert page == sheet._repr_html_()
    cells = _Cells()
    cells.feed(page)
    headers = [attributes for tag, attributes in cells.tags if tag == "th"]
    assert [h["scope"] for h in headers] == ["col"] * 6 + ["row"] * len(CLAIMS)
    assert "overflow-x:auto" in cells.tags[0][1]["style"]
    assert cells.tags[0][1]["aria-label"]
    assert cells.tags[0][1]["tabindex"] == "0"  # the keyboard can scroll what is wider than the phone
    assert set(re.findall(r"(?<![-\w])(?:color|background)\s*:\s*([^;\"]+)", page)) <= {
        "inherit",
        "transparent",
    }
    assert "Ours wins <by> a third & more" in cells.texts  # escaped: it came through as text
    assert cells.texts.count("not judged yet") == 4
    assert "↗ direction reproduced" in cells.texts
    assert "A < B (1.500)" in cells.texts
    text = repr(sheet)
    assert (
        "↗ direction reproduced: Ours wins <by> a third & more (paper: 0.6; 0.5000 nats [0.2500, 0.7500])"
        in text
    )
    assert "not judged yet: Ten times faster (paper: 10 ×; nothing measured)" in text


@pytest.fixture
def pair(folder):
    built = _filled().as_dict()
    return built, json.loads(json.dumps(built))


def test_equal_ledgers_do_not_differ(pair):
    assert ledger.compare(*pair) == []


def _set(group, place, key, value):
    def change(book):
        book[group][place][key] = value

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_set("claims", 0, "measured", -0.96875 * 1.06), "slope: measured"),
        (_set("claims", 0, "measured", None), "slope: measured"),
        (_set("claims", 0, "measured", math.nan), "slope: measured"),
        (_set("claims", 0, "verdict", "direction reproduced"), "slope: verdict"),
        (_set("claims", 0, "interval", [-1.0, -0.8]), "slope: interval"),
        (_set("claims", 0, "interval", None), "slope: interval"),
        (_set("claims", 0, "rule", "within 0.2 of -1"), "slope: rule"),
        (_set("claims", 0, "paper", "-0.9"), "slope: paper"),
        (_set("claims", 0, "kind", "timing"), "slope: kind"),
        (_set("claims", 0, "rtol", 0.5), "slope: rtol"),
        (_set("claims", 0, "refuted_by", 0.0), "slope: refuted_by"),
        (_set("claims", 2, "rule", "at least 1"), "speed: rule"),
        (_set("claims", 3, "measured", 1), "theorem: measured"),
        (_set("findings", 0, "measured", 1.6), "heavy-tail: measured"),
        (_set("findings", 0, "text", "other"), "heavy-tail: text"),
        (lambda book: book["claims"].pop(1), "gain"),
        (lambda book: book["findings"].clear(), "heavy-tail"),
        (lambda book: book["findings"].append({"id": "new", "text": "t", "measured": 1}), "new"),
        (lambda book: book.update(chapter="02"), "chapter"),
        (lambda book: book.update(profile="gpu"), "profile"),
    ],
)
@pytest.mark.parametrize("side", [0, 1])
def test_a_change_on_either_side_turns_the_comparison_red(pair, change, words, side):
    books = copy.deepcopy(pair)
    change(books[side])
    problems = ledger.compare(*books)
    assert len(problems) == 1
    assert words in problems[0]


@pytest.mark.parametrize(
    "change",
    [
        _set("claims", 0, "measured", -0.96875 * 1.04),
        _set("claims", 0, "interval", [-1.04, -0.87]),
        _set("claims", 1, "measured", 0.54),  # its rtol is 0.1
        _set("claims", 2, "measured", 3),  # timing: neither number nor verdict
        _set("claims", 2, "verdict", "not reproduced"),
        _set("findings", 0, "measured", 1.53),
    ],
)
def test_noise_does_not(pair, change):
    change(pair[0])
    assert ledger.compare(*pair) == []


def test_missing_and_extra_are_told_apart(pair):
    built, committed = pair
    del built["claims"][0]
    assert ledger.compare(built, committed) == ["claims: slope is missing from this run"]
    assert ledger.compare(committed, built) == ["claims: slope is not in the committed ledger"]


@pytest.mark.parametrize("far", [math.inf, -math.inf])
def test_a_committed_infinity_agrees_with_nothing(pair, far):
    for value in (pair[1]["claims"][0]["measured"], far):
        built, committed = copy.deepcopy(pair)
        built["claims"][0]["measured"], committed["claims"][0]["measured"] = value, far
        assert any("slope: measured" in line for line in ledger.compare(built, committed))


def test_small_numbers_are_compared_by_rtol_too(pair):
    for book, value in zip(pair, (2e-5, 1e-5), strict=True):
        book["findings"][0]["measured"] = value
    assert any("heavy-tail: measured" in line for line in ledger.compare(*pair))
