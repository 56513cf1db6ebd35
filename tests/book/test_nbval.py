"""The stored outputs are compared strictly: what may differ passes, what may not fails, proved on small
notebooks.

One notebook with a cell for each case is executed by the book's own function, changed, and compared in one
run of pytest.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

import execute
import pairs

ROOT = Path(__file__).resolve().parents[2]
_spec = importlib.util.spec_from_file_location("notebooks_conftest", ROOT / "notebooks" / "conftest.py")
assert _spec is not None
assert _spec.loader is not None
rules = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(rules)

NUMBERS = 'print(f"mean {27.973089:.6f} over {200} runs")'
STOPWATCH = 'print(f"⏱ {1e3 * (time.perf_counter() - start):.3f} ms, object {object()!r}")'
FRAMES = """\
frames = [{"text": f"error {0.731 / (n + 1):.4f}", "png": "iVBOR" + "A" * 60} for n in range(3)]
display(HTML('<input type="range"><pre></pre><script>frames = ' + json.dumps(frames) + "</script>"))"""

# One cell each. name: (code, text in its stored output, what that becomes, whether nbval must still pass)
CASES = {
    "unchanged": (NUMBERS, "", "", True),
    "float_5e-7": (NUMBERS, "27.973089", "27.973103", True),
    "float_5e-4": (NUMBERS, "27.973089", "27.987076", True),
    "float_2e-3": (NUMBERS, "27.973089", "28.029035", False),
    "float_5_percent": (NUMBERS, "27.973089", "29.371743", False),
    "word": (NUMBERS, "mean 27", "median 27", False),
    "rank": (NUMBERS, "200 runs", "199 runs", False),
    "physical_time": ('print("spike at 12.3 ms")', "12.3 ms", "15.3 ms", False),
    "stopwatch_and_address": (STOPWATCH, "", "", True),
    "stopwatch_changed": ('print("⏱ 12.3 ms")', "12.3 ms", "15.3 ms", True),
    "stopwatch_removed": ('print("⏱ 12.3 ms")', "⏱ 12.3 ms", "12.3 ms", False),
    "frame_number": (FRAMES, "error 0.2437", "error 0.2537", False),
    "frame_number_last_digit": (FRAMES, "error 0.2437", "error 0.2438", True),
    "frame_picture": (FRAMES, "iVBOR", "iVBORxyz", True),
    "rtol_tag_3_percent": ('print("trained to 0.8250")', "0.8250", "0.8500", True),
    "rtol_tag_8_percent": ('print("trained to 0.8250")', "0.8250", "0.8950", False),
    "exponent": ("-3.25e-07", "3.25e-07", "3.25e-06", False),
    "sign": ("-3.25e-07", "-3.25e-07", "3.25e-07", False),
}


def source_of(cases: dict[str, tuple[str, str, str, bool]]) -> str:
    """A py:percent file: a title, the imports, and one cell a case."""
    head = "# %% [markdown]\n# # A small notebook\n\n# %%\nimport json\nimport time\n\n"
    head += "from IPython.display import HTML, display\n\nstart = time.perf_counter()\n"
    tagged = {name: ' tags=["rtol=0.05"]' * name.startswith("rtol_tag") for name in cases}
    return head + "".join(f"\n# %%{tagged[name]}\n{case[0]}\n" for name, case in cases.items())


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small notebook, executed by scripts/execute.py."""
    source = tmp_path_factory.mktemp("small") / "small.py"
    source.write_text(source_of(CASES), encoding="utf-8")
    execute.execute(source)
    return source.with_suffix(".ipynb")


@pytest.fixture(scope="module")
def verdicts(stored: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bool]:
    """Whether nbval, called as in `make test`, passed each cell after its stored output was changed."""
    folder = tmp_path_factory.mktemp("changed")
    for name in ("conftest.py", "sanitize.cfg"):
        shutil.copy(ROOT / "notebooks" / name, folder)
    (folder / "pytest.ini").write_text("[pytest]\n")
    notebook = json.loads(stored.read_text(encoding="utf-8"))
    for cell, (name, (_, old, new, _)) in zip(notebook["cells"][2:], CASES.items(), strict=True):
        before = json.dumps(cell["outputs"], ensure_ascii=False)
        assert cell["outputs"], f"{name} prints nothing"
        assert json.dumps(old, ensure_ascii=False)[1:-1] in before
        cell["outputs"] = json.loads(before.replace(old, new) if old else before)
    (folder / "changed.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--import-mode=importlib",
        ".",
    ]
    command += [
        "--nbval",
        "--nbval-sanitize-with",
        "sanitize.cfg",
        "--nbval-current-env",
        "--junitxml=nbval.xml",
    ]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "COV_"))}
    environment |= execute.ENVIRONMENT
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    cases = list(ElementTree.parse(folder / "nbval.xml").iter("testcase"))
    assert len(cases) == 1 + len(CASES)
    passed = [case.find("failure") is None and case.find("error") is None for case in cases]
    assert passed[0], "the cell with the imports"
    return dict(zip(CASES, passed[1:], strict=True))


@pytest.mark.parametrize("name", CASES)
def test_nbval_sees_exactly_what_it_must(name: str, verdicts: dict[str, bool]) -> None:
    assert verdicts[name] == CASES[name][3]


def test_two_runs_write_the_same_bytes(stored: Path, tmp_path: Path) -> None:
    source = tmp_path / "small.py"
    timeless = {name: case for name, case in CASES.items() if name != "stopwatch_and_address"}
    source.write_text(source_of(timeless), encoding="utf-8")
    execute.execute(source)
    first = source.with_suffix(".ipynb").read_bytes()
    execute.execute(source)
    assert source.with_suffix(".ipynb").read_bytes() == first


def test_a_failing_notebook_leaves_the_stored_one_alone(stored: Path, tmp_path: Path) -> None:
    source = tmp_path / "small.py"
    source.write_text("# %%\nraise ValueError('on purpose')\n", encoding="utf-8")
    shutil.copy(stored, tmp_path / "small.ipynb")
    before = (tmp_path / "small.ipynb").read_bytes()
    with pytest.raises(execute.CellExecutionError, match="on purpose"):
        execute.execute(source)
    assert (tmp_path / "small.ipynb").read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["small.ipynb", "small.py"]


def test_an_unexecuted_cell_passes_nbval_but_not_the_pair_check(stored: Path) -> None:
    notebook = pairs.read_notebook(stored)
    assert pairs.faults(notebook) == []
    code = next(cell for cell in notebook.cells if cell.cell_type == "code")
    code.execution_count, code.outputs = None, []
    assert any("was not executed" in line for line in pairs.faults(notebook))


def test_the_masks_are_exactly_three() -> None:
    lines = (ROOT / "notebooks" / "sanitize.cfg").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.startswith("regex: ")] == [
        r"regex: ⏱ ?\d+(\.\d+)? ?(s|ms|µs|us|min)",
        r"regex: 0x[0-9a-fA-F]{6,}",
        r'regex: (base64,|"png": ")[A-Za-z0-9+/=]{40,}',
    ]


@pytest.mark.parametrize(
    ("stored_text", "new", "same"),
    [
        ("x = 9.999", "x = 10.000", True),
        ("   9.999  1", "  10.000  1", True),  # a right-aligned table moves its spaces with the digits
        ("0.5", "0.6", True),  # one unit of the last printed digit
        ("0.5", "0.7", False),
        ("0.50", "0.6", False),  # the finer of two units counts
        ("1e-3", "1.0005e-3", True),
        ("12 %", "13 %", False),
        ("v1.2.3", "v1.2.9", False),
        ("nan", "0.0", False),
        ("1 2", "1 2 3", False),
        ("0.1\n0.2", "0.1 0.2", False),
        ("1e999", "2e999", False),
        ("The level is 3.", "The level is 4.", False),  # a full stop makes no float of an integer
        ("<p>The level is 3.</p>", "<p>The level is 4.</p>", False),
        ("[1. 2. 3.]", "[2. 1. 4.]", False),
        ("[1. 2. 3000.]", "[1. 2. 3001.]", True),  # no decimals: the relative tolerance alone
        ("[1. 2. 300.]", "[1. 2. 301.]", False),
        ("1e-05", "2e-05", False),
        ("0.1", "0.2", False),  # one unit, but twice as much
        ("0.00", "-0.00", True),
    ],
)
def test_what_counts_as_the_same_text(stored_text: str, new: str, same: bool) -> None:
    assert rules.close(stored_text, new) == same


@given(st.integers(-(10**9), 10**9), st.integers(-(10**9), 10**9))
def test_integers_are_compared_exactly(a: int, b: int) -> None:
    assert rules.close(f"n {a} x", f"n {b} x") == (a == b)


@given(st.floats(1e-6, 1e6), st.floats(-9e-4, 9e-4))
def test_floats_within_the_tolerance_pass(x: float, relative: float) -> None:
    assert rules.close(f"{x!r} m", f"{x * (1 + relative)!r} m")


@given(st.floats(1e-6, 1e6), st.sampled_from([-1, 1]), st.floats(2e-3, 0.5))
def test_floats_beyond_the_tolerance_fail(x: float, sign: int, relative: float) -> None:
    assert not rules.close(f"{x:.12e} m", f"{x * (1 + sign * relative):.12e} m")
