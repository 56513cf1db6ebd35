"""The lattice against QuantLib, the estimators against the mlmc package."""

import math

import numpy as np
import pytest

from icml26.nested_expectations.peers import mlmc_package, quantlib_put
from icml26.nested_expectations.problems import LatticeBermudan, TwoStageTrial


def test_european_put():
    pytest.importorskip("QuantLib")
    european = LatticeBermudan(dates=2, qubits=9).european()
    analytic = quantlib_put(european, "analytic")
    assert analytic == pytest.approx(6.711399, abs=1e-5)  # Black-Scholes, by hand
    assert european.exact()[0][0] == pytest.approx(analytic, abs=3e-3)
    assert quantlib_put(european, "finite-difference", 400) == pytest.approx(analytic, abs=1e-3)
    # The library's tree has another up-probability (to first order in the step), hence not the same value.
    same = LatticeBermudan(dates=1, qubits=6).european()
    assert quantlib_put(same, "binomial", 63) == pytest.approx(same.exact()[0][0], abs=2e-3)


@pytest.mark.parametrize("dates", [2, 3])
def test_bermudan_put_tends_to_continuous_time(dates):
    pytest.importorskip("QuantLib")
    limit = quantlib_put(LatticeBermudan(dates=dates), "finite-difference", 600)
    errors = [abs(LatticeBermudan(dates=dates, qubits=q).exact()[0][0] - limit) for q in (2, 5, 8)]
    assert errors[2] < 4e-3
    assert errors[2] < errors[1]


def test_published_value_for_fifty_dates():
    # Longstaff and Schwartz (2001), table 1: 4.478 by finite differences for S = 36, volatility 0.2.
    assert LatticeBermudan(dates=50, qubits=4, volatility=0.2).exact()[0][0] == pytest.approx(4.478, abs=1e-3)
    pytest.importorskip("QuantLib")
    put = LatticeBermudan(dates=50, volatility=0.2)
    assert quantlib_put(put, "finite-difference", 400) == pytest.approx(4.478, abs=1e-3)


def test_the_librarys_settings_are_left_alone():
    ql = pytest.importorskip("QuantLib")
    before = ql.Settings.instance().evaluationDate
    quantlib_put(LatticeBermudan(dates=2), steps=20)
    assert ql.Settings.instance().evaluationDate == before


def test_mlmc_package_agrees():
    pytest.importorskip("mlmc")
    trial = TwoStageTrial(qubits=2, patients=100)
    runs = [mlmc_package(trial, [60, 30, 20], seed) for seed in range(6)]
    values = np.array([run.value for run in runs])
    assert len(set(values)) == 6
    error = values.std(ddof=1) / math.sqrt(6)
    assert abs(values.mean() - trial.exact()[0][0]) < 5 * error
    assert runs[0].cost == 60 * 2 + 30 * 3 + 20 * 5


def test_refusals():
    p = LatticeBermudan(dates=2)
    with pytest.raises((ValueError, TypeError), match="engine"):
        quantlib_put(p, "magic")
    with pytest.raises(ValueError, match="early exercise"):
        quantlib_put(p, "analytic")
    with pytest.raises(ValueError, match="steps"):
        quantlib_put(p, steps=1)
    with pytest.raises(ValueError, match="depth 2"):
        mlmc_package(LatticeBermudan(dates=3), [10, 10], 0)
    with pytest.raises(ValueError, match="samples"):
        mlmc_package(p, [10], 0)


def test_a_missing_library_is_named_with_its_extra(monkeypatch):
    from icml26.nested_expectations import peers

    def missing(name, *args, **kwargs):
        raise ImportError(name)

    monkeypatch.setattr(peers.importlib, "import_module", missing)
    with pytest.raises(ImportError, match=r"pip install 'icml26\[nested_expectations\]'"):
        quantlib_put(LatticeBermudan(dates=2))
    with pytest.raises(ImportError, match=r"pip install 'icml26\[peers\]'"):
        mlmc_package(LatticeBermudan(dates=2), [2, 2], 0)
