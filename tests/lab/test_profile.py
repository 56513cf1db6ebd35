"""The profile: by the machine, by the environment, and never by a typing error."""

import sys
from types import SimpleNamespace

import pytest

from icml26.lab import profile


@pytest.fixture(autouse=True)
def _clean(monkeypatch):
    monkeypatch.delenv("ICML26_PROFILE", raising=False)
    monkeypatch.delenv("ICML26_SMOKE", raising=False)


def _torch(cuda: bool):
    """A stand-in torch, so that both kinds of machine can be tried on either."""
    return SimpleNamespace(
        cuda=SimpleNamespace(is_available=lambda: cuda), device=lambda name: f"device {name}"
    )


@pytest.mark.parametrize(("cuda", "expected"), [(True, "gpu"), (False, "cpu")])
def test_the_machine_chooses(monkeypatch, cuda, expected):
    monkeypatch.setitem(sys.modules, "torch", _torch(cuda))
    assert profile.current() == profile.Profile(expected)


def test_without_torch_it_is_the_cpu(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)  # importing it raises ImportError
    assert profile.current().name == "cpu"


@pytest.mark.parametrize("name", profile.NAMES)
def test_the_variable_wins_over_the_machine(monkeypatch, name):
    monkeypatch.setitem(sys.modules, "torch", _torch(name == "cpu"))
    monkeypatch.setenv("ICML26_PROFILE", name)
    assert profile.current().name == name


@pytest.mark.parametrize("name", ["CPU", "t4", "gpu "[:2]])
def test_an_unknown_name_lists_the_known(monkeypatch, name):
    monkeypatch.setenv("ICML26_PROFILE", name)
    with pytest.raises(ValueError, match=r"ICML26_PROFILE.*cpu, gpu, paper"):
        profile.current()


def test_smoke_is_one_or_nothing(monkeypatch):
    monkeypatch.setenv("ICML26_PROFILE", "cpu")
    for value, expected in (("1", True), ("0", False), ("", False)):
        monkeypatch.setenv("ICML26_SMOKE", value)
        assert profile.current().smoke is expected
    monkeypatch.setenv("ICML26_SMOKE", "yes")
    with pytest.raises(ValueError, match="ICML26_SMOKE must be 0 or 1, got 'yes'"):
        profile.current()


def test_a_smoke_run_has_files_of_its_own():
    assert profile.Profile("cpu").label == "cpu"
    assert profile.Profile("cpu", smoke=True).label == "cpu-smoke"


def test_device_per_profile(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", _torch(True))
    devices = [profile.Profile(name).__class__.device.fget(profile.Profile(name)) for name in profile.NAMES]
    assert devices == ["device cpu", "device cuda", "device cuda"]
    monkeypatch.setitem(sys.modules, "torch", _torch(False))
    assert profile.Profile("gpu", smoke=True).device == "device cpu"
    assert profile.Profile("paper").device == "device cpu"
    with pytest.raises(RuntimeError, match="needs|CUDA device"):
        _ = profile.Profile("gpu").device


def test_choose_takes_the_settings_of_the_profile(monkeypatch):
    monkeypatch.setenv("ICML26_PROFILE", "gpu")
    assert profile.choose({"cpu": 1, "gpu": 2, "paper": 3}, smoke=0) == 2
    monkeypatch.setenv("ICML26_SMOKE", "1")
    assert profile.choose({"cpu": 1, "gpu": 2, "paper": 3}, smoke=0) == 0


def test_choose_refuses_gaps_and_strangers(monkeypatch):
    monkeypatch.setenv("ICML26_PROFILE", "paper")
    with pytest.raises(ValueError, match=r"no profile 'paper', only \['cpu'\]"):
        profile.choose({"cpu": 1}, smoke=0)
    with pytest.raises(ValueError, match="unknown profile 'laptop'"):
        profile.choose({"paper": 1, "laptop": 2}, smoke=0)
