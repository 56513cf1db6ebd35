"""Tables: what is written comes back, with its provenance; stale is told from touched."""

import hashlib
import importlib
import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from icml26.lab import tables

SOURCE = '''"""What it does."""
import scipy.stats
from sklearn import linear_model


def double(x):
    """Twice."""
    return 2 * x  # not three times


class Box:
    """Holds."""

    size: int = 3

    def get(self):
        """Get it."""
        return self.size
'''


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package `fakebook` with a chapter, found through sys.path as an installed one would be."""
    chapter = tmp_path / "fakebook" / "chapter"
    chapter.mkdir(parents=True)
    for folder in (chapter.parent, chapter):
        (folder / "__init__.py").write_text("")
    (chapter / "method.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    yield chapter
    for name in [name for name in sys.modules if name.partition(".")[0] == "fakebook"]:
        del sys.modules[name]


FRAME = pd.DataFrame(
    {
        "method": ["NA", "none", "a, b"],
        "error": [1 / 3, -1e-12, math.nan],
        "n": [1, 2, 2**40],
        "whole": [1.0, 2.0, 3.0],
        "won": [True, False, True],
    }
)


def _write(frame=FRAME, name="race", **changes):
    given_ = {"command": "make race", "seeds": range(5), "cpu_seconds": 1.5, **changes}
    return tables.write("fakebook.chapter", name, frame, **given_)


def test_what_is_written_comes_back(package):
    path = _write()
    assert path == package / "tables" / "race.csv"
    table = tables.read("fakebook.chapter", "race")
    assert list(table.frame.dtypes.astype(str))[1:] == ["float64", "int64", "float64", "bool"]
    assert table.frame["method"].tolist() == ["NA", "none", "a, b"]
    pd.testing.assert_frame_equal(table.frame, FRAME, rtol=1e-9, check_dtype=False)
    assert "0.3333333333\n" not in path.read_text()
    assert ",0.3333333333," in path.read_text()
    assert sorted(p.name for p in path.parent.iterdir()) == ["race.csv", "race.json"]


@given(
    st.lists(
        st.tuples(
            st.floats(allow_nan=True, allow_infinity=True, width=32),
            st.integers(-(2**62), 2**62),
            st.one_of(
                st.none(), st.text(st.characters(codec="utf-8", exclude_characters="\r\0"), min_size=1)
            ),
        ),
        min_size=1,
        max_size=6,
    )
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
def test_any_table_comes_back(package, rows):
    frame = pd.DataFrame(rows, columns=["x", "k", "word"]).astype({"word": object})
    _write(frame, "any")
    back = tables.read("fakebook.chapter", "any").frame
    np.testing.assert_allclose(back["x"], frame["x"], rtol=1e-9)
    assert back["k"].tolist() == frame["k"].tolist()
    assert [w if isinstance(w, str) else None for w in back["word"]] == [word for _, _, word in rows]


@dataclass(frozen=True)
class Settings:
    steps: int = 3
    rates: tuple[float, ...] = (0.1, 0.2)


def test_the_provenance_says_where_it_comes_from(package, tmp_path):
    data = tmp_path / "data.bin"
    data.write_bytes(b"abc")
    known = hashlib.sha256(b"").hexdigest()
    path = _write(
        inputs={"data": data, "weights": known},
        depends=["fakebook.chapter.method"],
        settings=Settings(),
        seeds=[np.int64(3)],
    )
    origin = tables.read("fakebook.chapter", "race").provenance
    assert origin == json.loads(path.with_suffix(".json").read_text())
    assert origin["command"] == "make race"
    assert origin["seeds"] == [3]
    # The well-known test vector of SHA-256.
    vector = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert origin["inputs"] == {"data": vector, "weights": known}
    assert origin["settings"] == {"steps": 3, "rates": [0.1, 0.2]}
    assert {"python", "numpy", "pandas", "scipy", "scikit-learn"} == set(origin["versions"])
    assert origin["versions"]["numpy"] == np.__version__
    assert origin["cpu_seconds"] == 1.5
    assert set(origin["machine"]) == {"cores", "cpu"}
    assert len(origin["date"]) == 10
    assert list(origin["code"]) == ["fakebook.chapter.method"]
    assert str(tmp_path) not in path.with_suffix(".json").read_text()


UNTOUCHED = {
    "comment": ("# not three times", "# the factor is two"),
    "comment above": ("def double", "# here it comes\ndef double"),
    "format": ("return 2 * x", "return (2\n        * x)"),
    "module docstring": ('"""What it does."""', '"""Does it."""'),
    "function docstring": ('    """Twice."""\n', ""),
    "class docstring": ('"""Holds."""', '"""Keeps a size."""'),
    "method docstring": ('"""Get it."""', "'''Get the size.'''"),
    "line ends": ("\n\n\n", "\n\n\n\n"),
}
TOUCHED = {
    "number": ("2 * x", "3 * x"),
    "type of number": ("2 * x", "2.0 * x"),
    "operator": ("2 * x", "2 + x"),
    "name": ("def double", "def twice"),
    "default": ("def double(x)", "def double(x=None)"),
    "annotation": ("size: int", "size: float"),
    "import": ("import scipy.stats", "import scipy.special"),
    "decorator": ("    def get", "    @property\n    def get"),
    "string that is no docstring": ("return self.size", 'return "size"'),
    "statement": ("    size: int = 3\n", "    size: int = 3\n    other = None\n"),
}


@pytest.mark.parametrize("edit", UNTOUCHED.values(), ids=UNTOUCHED)
def test_an_edit_outside_the_code_does_not_make_it_stale(package, edit):
    assert edit[0] in SOURCE
    _write(depends=["fakebook.chapter.method"])
    (package / "method.py").write_text(SOURCE.replace(*edit))
    assert tables.read("fakebook.chapter", "race").stale() == []


@pytest.mark.parametrize("edit", TOUCHED.values(), ids=TOUCHED)
def test_an_edit_of_the_code_does(package, edit):
    assert edit[0] in SOURCE
    _write(depends=["fakebook.chapter.method"])
    (package / "method.py").write_text(SOURCE.replace(*edit))
    assert tables.read("fakebook.chapter", "race").stale() == ["the code of fakebook.chapter.method changed"]


def test_none_in_place_of_a_value_is_a_change(package):
    (package / "method.py").write_text("x = [None]\n")
    before = tables.code_sha256("fakebook.chapter.method")
    for other in ("x = []\n", "x = None\n", "x = [...]\n", "x = [0]\n", "x = [False]\n", "x = ['None']\n"):
        (package / "method.py").write_text(other)
        assert tables.code_sha256("fakebook.chapter.method") != before


def test_a_package_stands_for_all_its_files(package):
    _write(depends=["fakebook.chapter"])
    assert tables.read("fakebook.chapter", "race").stale() == []
    (package / "more.py").write_text("x = 1\n")
    assert tables.read("fakebook.chapter", "race").stale() == ["the code of fakebook.chapter changed"]


def test_a_lost_module_and_an_edited_csv_are_reasons(package):
    path = _write(depends=["fakebook.chapter.method"])
    (package / "method.py").unlink()
    path.write_text(path.read_text().replace("0.3333333333", "0.2"))
    assert tables.read("fakebook.chapter", "race").stale() == [
        "race.csv was edited after it was written",
        "fakebook.chapter.method is gone",
    ]


def test_status_lists_every_table(package, capsys, monkeypatch):
    _write(name="b", depends=["fakebook.chapter.method"])
    _write(name="a")
    (package / "method.py").write_text("x = 1\n")
    changed = "the code of fakebook.chapter.method changed"
    assert tables.status("fakebook") == [("fakebook.chapter", "a", []), ("fakebook.chapter", "b", [changed])]
    rows = tables.status("fakebook")
    monkeypatch.setattr(tables, "status", lambda: rows)
    assert tables.main() == 1
    assert capsys.readouterr().out == f"fakebook.chapter:a: current\nfakebook.chapter:b: {changed}\n"
    monkeypatch.setattr(tables, "status", lambda: rows[:1])
    assert tables.main() == 0


def test_a_missing_table_says_how_to_make_it(package):
    for there, words in ((False, "it has: none"), (True, "it has: race")):
        if there:
            _write()
        with pytest.raises(FileNotFoundError) as error:
            tables.read("fakebook.chapter", "cost")
        assert words in str(error.value)
        assert "python -m fakebook.chapter.experiment --table cost --seeds 5" in str(error.value)


def test_columns_must_be_those_of_the_provenance(package):
    path = _write()
    path.write_text(path.read_text().replace("whole", "part"))
    with pytest.raises(ValueError, match=r"race\.csv has the columns"):
        tables.read("fakebook.chapter", "race")


ONE = pd.DataFrame({"x": [1.0]})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "../race"}, "name must be like"),
        ({"name": "Race"}, "name must be like"),
        ({"command": " "}, "command must say"),
        ({"cpu_seconds": -1}, "cpu_seconds must not be negative"),
        ({"cpu_seconds": math.nan}, "cpu_seconds must be finite"),
        ({"frame": pd.DataFrame()}, "frame must have rows"),
        ({"frame": ONE.iloc[:0]}, "frame must have rows"),
        ({"frame": ONE.rename(columns={"x": math.nan})}, "each column needs a name, got nan"),
        ({"frame": ONE.rename(columns={"x": 3})}, "each column needs a name, got 3"),
        ({"frame": pd.DataFrame([[1, 2]], columns=["x", "x"])}, "each column name once"),
        ({"frame": ONE.set_axis(["row"])}, "index is not written"),
        ({"frame": ONE.set_axis([5])}, "index is not written"),
        ({"frame": pd.DataFrame({"x": ["a", ""]})}, "empty string"),
        ({"inputs": {"data": "not a hash"}}, r"inputs\['data'\] must be a Path or a sha256"),
        ({"depends": ["fakebook.chapter.missing"]}, "no module 'fakebook.chapter.missing'"),
        ({"depends": ["fakebook.missing.deeper"]}, "no module"),
        ({"depends": ["math"]}, "has no Python source"),
        ({"settings": 3}, "settings must be a dataclass or a mapping"),
        ({"settings": {"x": math.nan}}, "settings must be what JSON can hold"),
        ({"settings": {"x": object()}}, "settings must be what JSON can hold"),
    ],
)
def test_what_cannot_be_written(package, changes, words):
    with pytest.raises(ValueError, match=words):
        _write(**changes)
    assert not list(package.rglob("tables/*"))


@pytest.mark.parametrize(
    "column",
    [
        [pd.Timestamp("2026-01-01")],
        [1 + 2j],
        pd.Categorical(["a"]),
        [[1, 2]],
        ["a", 1.0],
        pd.array([1, None], dtype="Int64"),
    ],
    ids=["time", "complex", "category", "list", "mixed", "nullable"],
)
def test_what_a_csv_would_lose(package, column):
    with pytest.raises(TypeError, match="column 'x' must hold numbers, bools or strings"):
        _write(pd.DataFrame({"x": column}))


def test_a_package_in_a_folder_is_needed(package):
    with pytest.raises(ValueError, match="is a module"):
        tables.write("fakebook.chapter.method", "x", ONE, command="c", seeds=[], cpu_seconds=0)
    with pytest.raises(ValueError, match="no module 'nowhere'"):
        tables.write("nowhere", "x", ONE, command="c", seeds=[], cpu_seconds=0)


def test_a_missing_input_is_an_error(package):
    with pytest.raises(FileNotFoundError):
        _write(inputs={"data": Path("/does/not/exist")})


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (pd.DataFrame({"a": ["x\ry"]}), "carriage return"),
        (pd.DataFrame({"a\rb": [1]}), "each column needs a name"),
        (pd.DataFrame({"a": np.array([2**63], dtype=np.uint64)}), "beyond 64-bit integers"),
    ],
)
def test_what_would_be_read_as_something_else(package, frame, words):
    with pytest.raises(ValueError, match=words):
        _write(frame)


def test_the_largest_integer_comes_back(package):
    _write(pd.DataFrame({"a": np.array([2**63 - 1], dtype=np.uint64)}))
    assert tables.read("fakebook.chapter", "race").frame["a"].tolist() == [2**63 - 1]
