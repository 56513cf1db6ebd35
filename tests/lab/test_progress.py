"""The bar: there for who watches, gone elsewhere, and never in the way of the items."""

import sys
from types import SimpleNamespace

import pytest

from icml26 import lab
from icml26.lab.progress import bar


@pytest.fixture
def screen(monkeypatch):
    """A stderr that is a terminal, on a machine that is no CI."""

    class Screen:
        text = ""

        def write(self, text):
            self.text += text

        def flush(self):
            pass

        def isatty(self):
            return True

    for name in ("CI", "ICML26_STATIC"):
        monkeypatch.delenv(name, raising=False)
    return Screen()


def test_a_watcher_sees_a_bar(screen, monkeypatch):
    monkeypatch.setattr(sys, "stderr", screen)  # in each test: pytest puts its own there after the fixtures
    assert list(lab.progress(range(5), desc="training")) == [0, 1, 2, 3, 4]
    assert "training" in screen.text
    assert "0/5" in screen.text


def test_a_generator_gets_its_total(screen, monkeypatch):
    monkeypatch.setattr(sys, "stderr", screen)
    assert list(lab.progress((n * n for n in range(3)), total=3)) == [0, 1, 4]
    assert "0/3" in screen.text


@pytest.mark.parametrize("name", ["CI", "ICML26_STATIC"])
def test_ci_and_stored_outputs_are_quiet(screen, monkeypatch, name):
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv(name, "1")
    items = [1, 2]
    assert lab.progress(items, desc="training") is items
    assert screen.text == ""
    monkeypatch.setenv(name, "0")
    assert lab.progress(items) is not items


def test_a_pipe_is_quiet_but_a_live_kernel_is_watched(screen, monkeypatch):
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(type(screen), "isatty", lambda self: False)
    items = [1, 2]
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    assert lab.progress(items) is items
    monkeypatch.setitem(
        sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=1))
    )
    assert list(lab.progress(items, desc="training")) == items
    assert "training" in screen.text


def test_a_bar_moved_by_hand_keeps_the_same_rule(screen, monkeypatch):
    monkeypatch.setattr(sys, "stderr", screen)
    with bar("fetching", total=5_000_000, initial=2_000_000, unit="B") as shown:
        shown.update(3_000_000)
    assert "fetching" in screen.text
    assert "2.00M/5.00M" in screen.text
    assert "5.00M/5.00M" in screen.text
    screen.text = ""
    monkeypatch.setenv("ICML26_STATIC", "1")
    with bar("training", total=2, unit="step") as hidden:
        hidden.update(2)
    assert screen.text == ""
