"""The computed pages: current, complete, escaped, and refused when their sources are wrong."""

import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml

import chapters
import scoreboard

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "pages.py"


@pytest.fixture
def repository(tmp_path):
    """A small copy of what the scripts read: no ledger, no notebook, one package with two modules."""
    (tmp_path / "book" / "ledgers").mkdir(parents=True)
    (tmp_path / "notebooks").mkdir()
    for name in ("chapters.yml", "index.md"):
        shutil.copy(ROOT / "book" / name, tmp_path / "book" / name)
    package = tmp_path / "src" / "icml26" / "lab"
    package.mkdir(parents=True)
    for name in ("__init__.py", "race.py", "_private.py"):
        (package / name).write_text('"""A module."""\n')
    return tmp_path


def run(root, *arguments):
    command = [sys.executable, str(SCRIPT), "--root", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def claim(**changes):
    base = {
        "id": "slope",
        "claim": "The error falls like the cost to the power −1",
        "paper": "1",
        "source": "Theorem 1.6",
        "kind": "value",
        "rule": "within 0.1 of 1",
        "refuted_by": 0.5,
        "measured": 0.9876543,
        "unit": "",
        "interval": [0.95, 1.02],
        "scale": "two dates",
        "rtol": 0.05,
        "verdict": "reproduced",
    }
    return base | changes


def write_ledger(root, claims, findings=(), chapter="01", slug="nested_expectations", profile="cpu"):
    ledger = {"chapter": chapter, "slug": slug, "profile": profile, "claims": claims, "findings": [*findings]}
    path = root / "book" / "ledgers" / f"{chapter}_{slug}.json"
    path.write_text(json.dumps(ledger), encoding="utf-8")
    return path


def board(root):
    result = run(root)
    assert result.returncode == 0, result.stderr
    return (root / "book" / "scoreboard.md").read_text(encoding="utf-8")


class Rows(HTMLParser):
    """The body rows of the claims table: attributes and the text of each cell."""

    def __init__(self, page):
        super().__init__()
        self.rows, self.tags, self._cell, self._inside = [], set(), None, False
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.add(tag)
        if tag == "table":
            self._inside = attrs.get("id") == "claims"
        elif tag == "tr" and self._inside and "data-chapter" in attrs:
            self.rows.append((attrs, {}))
        elif tag == "td" and self._inside:
            self._cell = attrs["data-label"]
            self.rows[-1][1][self._cell] = ""

    def handle_endtag(self, tag):
        if tag == "td":
            self._cell = None

    def handle_data(self, data):
        if self._cell:
            self.rows[-1][1][self._cell] += data


# --- the repository itself ---


def test_the_committed_pages_are_current():
    result = run(ROOT, "--check")
    assert result.returncode == 0, result.stdout + result.stderr


def test_nineteen_chapters_with_the_agreed_numbers():
    book = chapters.load_book(ROOT)
    assert [c.number for c in book.chapters][:19] == [f"{n:02d}" for n in range(1, 20)]
    assert all(any(c.theme == theme for c in book.chapters) for theme, _ in book.themes)
    for c in book.chapters:
        assert c.idea.endswith(".")
        assert not c.idea[:-1].count(". "), f"{c.number}: the idea is one sentence"


def test_every_notebook_belongs_to_a_chapter():
    stems = {c.stem for c in chapters.load_book(ROOT).chapters}
    stems |= {f"{stem}_experiments" for stem in stems}
    assert {p.stem for p in (ROOT / "notebooks").glob("[0-9]*.ipynb")} <= stems


def test_every_committed_claim_is_on_the_scoreboard():
    page = Rows((ROOT / "book" / "scoreboard.md").read_text(encoding="utf-8"))
    ledgers = [json.loads(p.read_text(encoding="utf-8")) for p in (ROOT / "book" / "ledgers").glob("*.json")]
    wanted = sorted((led["chapter"], c["verdict"]) for led in ledgers for c in led["claims"])
    assert sorted((attrs["data-chapter"], attrs["data-verdict"]) for attrs, _ in page.rows) == wanted


# --- check and write ---


def test_check_fails_with_a_hint_and_changes_nothing(repository):
    before = (repository / "book" / "index.md").read_text(encoding="utf-8")
    assert run(repository).returncode == 0
    assert run(repository, "--check").returncode == 0
    toc = repository / "_toc.yml"
    toc.write_text(toc.read_text(encoding="utf-8").replace("book/glossary", "book/gloss"), encoding="utf-8")
    damaged = toc.read_text(encoding="utf-8")
    result = run(repository, "--check")
    assert result.returncode == 1
    assert "-      - file: book/gloss\n" in result.stdout
    assert "+      - file: book/glossary\n" in result.stdout
    assert "python scripts/pages.py" in result.stdout
    assert toc.read_text(encoding="utf-8") == damaged
    assert run(repository).returncode == 0
    assert run(repository, "--check").returncode == 0
    text = (repository / "book" / "index.md").read_text(encoding="utf-8")
    assert text.split("<!-- chapters:begin -->")[0] == before.split("<!-- chapters:begin -->")[0]


def test_check_sees_a_missing_page_a_left_over_page_and_a_new_ledger(repository):
    run(repository)
    (repository / "book" / "api" / "lab.md").rename(repository / "book" / "api" / "gone.md")
    result = run(repository, "--check")
    assert result.returncode == 1
    assert "book/api/lab.md is missing" in result.stdout
    assert "book/api/gone.md belongs to no package" in result.stdout
    run(repository)
    assert not (repository / "book" / "api" / "gone.md").exists()
    write_ledger(repository, [claim()])
    assert "book/scoreboard.md" in run(repository, "--check").stdout


def test_two_runs_give_the_same_bytes(repository):
    write_ledger(repository, [claim(), claim(id="other", verdict="argued", measured=None, interval=None)])
    run(repository)
    names = ["_toc.yml", "book/index.md", "book/scoreboard.md", "book/api/lab.md"]
    first = [(repository / name).read_bytes() for name in names]
    run(repository)
    assert [(repository / name).read_bytes() for name in names] == first


# --- the scoreboard ---


def test_without_a_ledger_the_page_says_so(repository):
    page = board(repository)
    assert "No chapter has a committed ledger yet" in page
    assert "<table" not in page
    assert "<script" not in page


def test_every_claim_of_every_ledger_is_a_row_with_its_numbers(repository):
    verdicts = ["reproduced", "direction reproduced", "argued", "not reproduced", "out of reach here"]
    claims = [claim(id=f"c{i}", claim=f"Claim number {i}", verdict=v) for i, v in enumerate(verdicts)]
    claims[2] |= {"measured": None, "interval": None}
    claims[3] |= {"measured": 7.5e7, "interval": [-2, 1.23456e-6], "unit": "calls"}
    write_ledger(repository, claims)
    write_ledger(repository, [claim(id="c9", claim="Another chapter's claim")], chapter="09", slug="sinq")
    page = board(repository)
    rows = Rows(page).rows
    assert [(a["data-chapter"], a["data-verdict"]) for a, _ in rows] == [
        *(("01", v) for v in verdicts),
        ("09", "reproduced"),
    ]
    assert len({a["id"] for a, _ in rows}) == 6
    for i, (_, cells) in enumerate(rows[:5]):
        assert f"Claim number {i}" in cells["Claim"]
        assert "Theorem 1.6" in cells["Claim"]
        assert cells["The paper's figure"] == "1"
        assert cells["Scale"] == "two dates"
        assert verdicts[i] in cells["Verdict"]
    assert "0.9877" in rows[0][1]["Measured"]
    assert "0.95 to 1.02" in rows[0][1]["Measured"]
    assert rows[2][1]["Measured"] == "–"
    assert rows[3][1]["Measured"] == "7.5 × 107 calls95 % interval −2 to 1.235 × 10−6"
    counts = re.search(r"<tfoot>.*</tfoot>", page).group()
    assert re.findall(r"<td>(\d+)</td>", counts) == ["2", "1", "1", "1", "1"]


def test_the_text_of_a_ledger_cannot_become_markup(repository):
    evil = '<script>alert("x")</script> & <img src=x onerror=alert(1)> ``` {raw} a\n\n# b'
    changes = dict.fromkeys(("claim", "paper", "source", "scale", "unit", "rule"), evil)
    write_ledger(repository, [claim(**changes)], [{"id": "f", "text": evil, "measured": 1.0}])
    page = board(repository)
    assert page.count("<script") == 1  # the filter's own
    assert "<img" not in page
    assert "&lt;script&gt;alert(&quot;x&quot;)" in page
    # The text can close neither the fence around the table nor start a block of its own.
    assert re.findall(r"^```.*$", page, re.M) == ["```{raw} html", "```"] * 3
    assert re.findall(r"^# .*$", page, re.M) == ["# Scoreboard"]
    assert evil.splitlines()[0] in Rows(page).rows[0][1]["Claim"]


def test_maths_and_code_in_a_claim_are_shown_as_such():
    markup = scoreboard.markup
    assert markup("cost $\\varepsilon<1$ ok") == (
        'cost <span class="math notranslate nohighlight">\\(\\varepsilon&lt;1\\)</span> ok'
    )
    assert markup("call `f(x) < 2`") == "call <code>f(x) &lt; 2</code>"
    assert markup("from $5 to $6 each") == "from $5 to $6 each"


def test_numbers_keep_their_value_and_refuse_what_is_not_one():
    number = scoreboard.number
    values = (0, -12, 123456, 0.5, -1.25, None)
    assert [number(v) for v in values] == ["0", "−12", "123456", "0.5", "−1.25", "–"]
    assert number(1.5e-7) == "1.5 × 10<sup>−7</sup>"
    assert number({"a": 1, "b": [2, 0.25]}) == "a = 1, b = 2, 0.25"
    for bad in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="finite"):
            number(bad)


def test_findings_are_listed_with_their_chapter(repository):
    write_ledger(repository, [claim()], [{"id": "f", "text": "The base term is missing", "measured": 0.0}])
    page = board(repository)
    assert "## Findings" in page
    assert "The base term is missing" in page
    assert "Measured: 0." in page


def test_finished_chapters_are_linked_from_their_rows(repository):
    write_ledger(repository, [claim()])
    assert 'href="../notebooks/' not in board(repository)
    (repository / "notebooks" / "01_nested_expectations.ipynb").write_text("{}")
    assert 'href="../notebooks/01_nested_expectations.html"' in board(repository)
    (repository / "notebooks" / "01_nested_expectations_experiments.ipynb").write_text("{}")
    assert 'href="../notebooks/01_nested_expectations_experiments.html"' in board(repository)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"chapter": "77"}, "77"),
        ({"slug": "other"}, "other"),
        ({"profile": "gpu"}, "gpu"),
        ({"claims": [claim(verdict="surely true")]}, "surely true"),
        ({"claims": [claim(measured=float("nan"))]}, "finite"),
    ],
)
def test_a_wrong_ledger_is_refused(repository, change, message):
    path = write_ledger(repository, [claim()])
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    result = run(repository)
    assert result.returncode != 0
    assert "ValueError" in result.stderr
    assert message in result.stderr


# --- map, contents, API ---


def test_planned_chapters_carry_no_link_and_finished_ones_do(repository):
    run(repository)
    number = len(yaml.safe_load((repository / "book" / "chapters.yml").read_text(encoding="utf-8"))["chapters"])
    text = (repository / "book" / "index.md").read_text(encoding="utf-8")
    assert "notebooks/" not in text
    assert text.count("*planned*\n:::") == number
    assert "notebooks/" not in (repository / "_toc.yml").read_text(encoding="utf-8")
    (repository / "notebooks" / "09_sinq.ipynb").write_text("{}")
    run(repository)
    text = (repository / "book" / "index.md").read_text(encoding="utf-8")
    assert re.findall(r"\]\((\.\./notebooks/[^)]*)\)", text) == ["../notebooks/09_sinq.ipynb"]
    assert text.count("*planned*\n:::") == number - 1


def test_the_contents_list_finished_chapters_and_every_page(repository):
    for name in ("01_nested_expectations", "01_nested_expectations_experiments", "09_sinq"):
        (repository / "notebooks" / f"{name}.ipynb").write_text("{}")
    run(repository)
    toc = yaml.safe_load((repository / "_toc.yml").read_text(encoding="utf-8"))
    files = []
    for part in toc["parts"]:
        for entry in part["chapters"]:
            files += [entry["file"], *(section["file"] for section in entry.get("sections", []))]
    assert [f for f in files if f.startswith("notebooks/")] == [
        "notebooks/01_nested_expectations",
        "notebooks/01_nested_expectations_experiments",
        "notebooks/09_sinq",
    ]
    assert len(files) == len(set(files))
    pages = {p.relative_to(ROOT).with_suffix("").as_posix() for p in (ROOT / "book").glob("*.md")}
    assert pages - {"book/language"} <= {*files, toc["root"]}  # made only where the package has language models
    assert "file: book/language\n" in (ROOT / "_toc.yml").read_text(encoding="utf-8")


def test_the_api_pages_name_every_public_module(repository):
    run(repository)
    page = (repository / "book" / "api" / "lab.md").read_text(encoding="utf-8")
    assert re.findall(r"automodule:: (\S+)", page) == ["icml26.lab", "icml26.lab.race"]


def test_an_index_page_without_its_marks_is_refused(repository):
    (repository / "book" / "index.md").write_text("# Title\n")
    result = run(repository)
    assert result.returncode != 0
    assert "chapters:begin" in result.stderr


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("number", 1, "two digits"),
        ("slug", "No Slug", "slug"),
        ("theme", "nowhere", "theme"),
        ("link", "http://example.org", "https"),
        ("link", 'https://example.org/" onclick="', "https"),
        ("minutes", 0, "minutes"),
        ("minutes", True, "minutes"),
        ("idea", "  ", "idea"),
        ("authors", "", "authors"),
        ("surprise", "x", "surprise"),
    ],
)
def test_a_wrong_entry_in_the_list_of_chapters_is_refused(repository, key, value, message):
    path = repository / "book" / "chapters.yml"
    raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    raw["chapters"][4][key] = value
    path.write_text(yaml.safe_dump(raw), encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        chapters.load_book(repository)


@pytest.mark.parametrize("key", ["number", "slug"])
def test_a_number_or_slug_used_twice_is_refused(repository, key):
    path = repository / "book" / "chapters.yml"
    raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    raw["chapters"][4][key] = raw["chapters"][3][key]
    path.write_text(yaml.safe_dump(raw), encoding="utf-8")
    with pytest.raises(ValueError, match="twice"):
        chapters.load_book(repository)


def test_text_with_markup_stays_text_on_the_map():
    assert chapters.markdown("<b>*x*</b> [y](z) $1$") == (
        "\\<b\\>\\*x\\*\\</b\\> \\[y\\]\\(z\\) \\$1\\$"
    )
