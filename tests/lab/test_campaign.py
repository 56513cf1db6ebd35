"""The command line that makes committed tables."""

import sys
from dataclasses import dataclass

import pandas as pd
import pytest

from icml26 import lab


@dataclass(frozen=True)
class Settings:
    n: int


def numbers(settings, seeds):
    return pd.DataFrame({"x": [settings.n * seeds]})


def twice(settings, seeds):
    return pd.DataFrame({"x": [2 * settings.n]})


@pytest.fixture
def package(tmp_path, monkeypatch):
    """An importable chapter in a folder of its own."""
    name = "campaign_chapter"
    folder = tmp_path / name
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "method.py").write_text("def f():\n    return 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("ICML26_PROFILE", "cpu")
    monkeypatch.delenv("ICML26_SMOKE", raising=False)
    yield name
    sys.modules.pop(name, None)


def run(package, *arguments):
    lab.campaign(
        package,
        {"numbers": numbers, "twice": twice, "race": twice},
        settings=Settings(7),
        depends=dict.fromkeys(("numbers", "twice", "race"), (f"{package}.method",)),
        deterministic=("twice",),
        arguments=arguments,
    )


def test_one_table_with_its_provenance(package):
    run(package, "--table", "numbers", "--seeds", "3")
    table = lab.tables.read(package, "numbers")
    assert table.frame["x"].tolist() == [21]
    assert table.provenance["seeds"] == [0, 1, 2]
    assert table.provenance["settings"] == {"n": 7}
    assert table.provenance["command"] == f"python -m {package}.experiment --table numbers --seeds 3"
    assert not table.stale()


def test_a_table_is_made_again_with_its_own_repetitions(package):
    run(package, "--table", "numbers", "--seeds", "3")
    run(package, "--table", "numbers")
    assert lab.tables.read(package, "numbers").frame["x"].tolist() == [21]


def test_all_leaves_the_race_to_a_quiet_machine(package, capsys):
    run(package, "--table", "all")
    assert [name for _, name, _ in lab.tables.status(package)] == ["numbers", "twice"]
    assert lab.tables.read(package, "twice").provenance["seeds"] == []
    assert "numbers.csv: 1 rows" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [("--table", "nothing"), ("--table", "numbers", "--seeds", "0"), ()])
def test_bad_command_lines_stop(package, arguments):
    with pytest.raises(SystemExit):
        run(package, *arguments)


def test_only_the_cpu_profile_is_committed(package, monkeypatch):
    monkeypatch.setenv("ICML26_SMOKE", "1")
    with pytest.raises(RuntimeError, match="cpu profile"):
        run(package, "--table", "numbers")


def test_every_table_names_what_it_depends_on(package):
    with pytest.raises(ValueError, match="race"):
        lab.campaign(
            package,
            {"numbers": numbers, "race": twice},
            settings=Settings(1),
            depends={"numbers": (f"{package}.method",)},
            arguments=("--table", "numbers"),
        )
