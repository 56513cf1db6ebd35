"""Colab: the first cell installs the chapter from a clone, and installing replaces nothing that Colab has."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import colab_check
import pairs

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = pairs.chapters(ROOT)
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")

# --- the first cell, in a fresh environment, from an empty folder
# ------------------------------------------------------


@pytest.fixture(scope="session")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The python of a new venv that sees what is installed here, but nothing of this package nor of the
    checkout.

    A folder of links to the installed packages goes on its path: a .pth file adds it without obeying the
    .pth files in it, so an editable install of icml26 is not seen, and its metadata are not linked.
    """
    folder = tmp_path_factory.mktemp("colab")
    installed = folder / "installed"
    installed.mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not re.match(r"_?icml26|__editable__|pip$|pip-|setuptools|__pycache__", entry.name):
            (installed / entry.name).symlink_to(entry)
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    python = folder / "venv" / "bin" / "python"
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    own = subprocess.run([python, "-c", where], capture_output=True, text=True, check=True).stdout.strip()
    (Path(own) / "installed.pth").write_text(f"{installed}\n", encoding="utf-8")
    return python


@pytest.fixture(scope="session")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A git repository, branch main, that holds the package as it is now."""
    folder = tmp_path_factory.mktemp("clone") / "repository"
    folder.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"]
    for command in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "The package"]):
        subprocess.run(["git", *identity, *command], cwd=folder, check=True)
    return folder


def first_cell(name: str) -> str:
    """The set-up cell of a chapter's lesson."""
    cells = pairs.read_source(CHAPTERS[name][0]).cells
    return next(cell.source for cell in cells if cell.cell_type == "code")


def _run(
    python: Path, code: str, folder: Path, more: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "COV_", "PYTEST_")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(hidden)}
    kept |= more or {}
    return subprocess.run([python, "-c", code], cwd=folder, env=kept, capture_output=True, text=True)


SETUP = """\
import importlib.util, subprocess, sys
if importlib.util.find_spec("icml26") is None:
    subprocess.check_call([sys.executable, "-m", "pip", "install", "-q", "icml26 @ git+https://example.org/a/b@main"])
"""


@pytest.fixture(scope="session")
def installed(fresh: Path, clone: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fresh python after the first chapter's set-up cell ran as it stands, in an empty folder.

    Git takes the clone where the cell names the public address.
    """
    cell = first_cell(next(iter(CHAPTERS))) if CHAPTERS else SETUP
    folder = tmp_path_factory.mktemp("empty")
    code = "import importlib.util; print(importlib.util.find_spec('icml26'))"
    assert _run(fresh, code, folder).stdout == "None\n", "the fresh environment sees the package already"
    (address,) = re.findall(r"git\+(https://[^\"@]+)@main", cell)
    git = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_VALUE_0": address}
    git["GIT_CONFIG_KEY_0"] = f"url.file://{clone}.insteadOf"
    ran = _run(fresh, cell, folder, git)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == ""  # the stored notebook shows nothing there, and nbval compares
    assert list(folder.iterdir()) == []
    return fresh


@pytest.mark.slow
@pytest.mark.network
def test_the_first_cell_installs_the_package_from_the_clone(installed: Path, tmp_path: Path) -> None:
    found = _run(installed, "import icml26; print(icml26.__version__, icml26.__file__)", tmp_path)
    assert found.returncode == 0, found.stderr
    version, path = found.stdout.split()
    assert f'version = "{version}"' in PROJECT
    assert installed.parent.parent in Path(path).parents


def test_all_chapters_have_the_same_first_cell_but_for_their_extra() -> None:
    assert len({first_cell(name).replace(f"icml26[{name[3:]}]", "icml26") for name in CHAPTERS}) <= 1


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapter_and_its_tables_come_with_the_package(name: str, installed: Path, tmp_path: Path) -> None:
    tables = sorted((ROOT / "src/icml26" / name[3:] / "tables").glob("*.csv"))
    assert tables, f"{name} has no committed table"
    code = f"""
import icml26.{name[3:]} as chapter
from icml26 import lab
table = lab.tables.read("icml26.{name[3:]}", "{tables[0].stem}")
print(chapter.__file__)
print(len(table.frame))
"""
    ran = _run(installed, code, tmp_path)
    assert ran.returncode == 0, ran.stderr
    path, rows = ran.stdout.split()
    assert installed.parent.parent in Path(path).parents
    assert int(rows) > 0


# --- the resolver check
# ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.parametrize("runtime", colab_check.runtimes(ROOT), ids=lambda runtime: runtime.name)
def test_installing_replaces_nothing(runtime: colab_check.Runtime) -> None:
    """The extra `all` is the union of the chapters' (another test), so its resolution serves each of them."""
    pins, why = colab_check.check(PROJECT, runtime, "all")
    assert why == ""
    names = {colab_check.normal(pin.partition("==")[0]) for pin in pins}
    assert names & {"torch", "numpy", "torchvision", "triton"} == set()


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.parametrize("requirement", ["numpy<2", "pandas>=3", "torch>=2.12"])
def test_a_requirement_that_would_replace_something_is_seen(requirement: str) -> None:
    project = '[project]\nname = "x"\nversion = "1"\nrequires-python = ">=3.11"\n'
    project += f'dependencies = ["{requirement}"]\n'
    pins, why = colab_check.check(project, colab_check.runtimes(ROOT)[0], "")
    assert pins == []
    assert re.split("[<>]", requirement)[0] in why


def test_the_lists_are_dated_and_say_their_python() -> None:
    runtimes = colab_check.runtimes(ROOT)
    assert len(runtimes) >= 2
    assert all(re.fullmatch(r"(gpu|cpu)-\d{4}-\d\d-\d\d", runtime.name) for runtime in runtimes)
    assert runtimes[0].name.split("-", 1)[1] >= runtimes[-1].name.split("-", 1)[1]
    for runtime in runtimes:
        assert {"numpy", "torch", "ipywidgets", "scikit-learn"} <= set(runtime.versions)
        assert not any(name.startswith(("nvidia-", "cuda-")) for name in runtime.versions)
        assert "+" not in runtime.constraints


def test_a_list_without_a_python_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "gpu-2030-01-01.txt").write_text("# Colab\nnumpy==3.0\n", encoding="utf-8")
    with pytest.raises(ValueError, match="the first line names no Python version"):
        colab_check.read_runtime(tmp_path / "gpu-2030-01-01.txt")


def test_every_extra_but_those_for_elsewhere_is_checked() -> None:
    assert {"", "all", "nested_expectations"} <= set(colab_check.extras(PROJECT))
    assert not set(colab_check.extras(PROJECT)) & {"peers", "book", "dev"}
