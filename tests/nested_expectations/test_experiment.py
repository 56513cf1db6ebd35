"""The smoke settings run every table by the code path of the real ones, on both sides of the profile."""

import numpy as np
import pandas as pd
import pytest

from icml26.nested_expectations import experiment, figures, sampled_runs, summary


@pytest.fixture(scope="module")
def smoke():
    """Every table but the race, small."""
    made = {}
    for name, make in experiment.TABLES.items():
        if name not in ("race", "circuits", "convergence", "mlmc_peer"):  # slow, or need a peer
            made[name] = make(experiment.SMOKE, 2)
    return made


def test_every_table_has_rows_and_finite_numbers(smoke):
    for name, frame in smoke.items():
        assert len(frame), name
        assert np.isfinite(frame.select_dtypes("number").to_numpy()).all(), name


def test_the_gpu_profile_takes_the_device_path(monkeypatch):
    monkeypatch.setenv("ICML26_PROFILE", "gpu")
    monkeypatch.setenv("ICML26_SMOKE", "1")
    called = []
    real = sampled_runs.read_on_device
    monkeypatch.setattr(sampled_runs, "read_on_device", lambda *a, **k: called.append(1) or real(*a, **k))
    assert experiment.settings() == experiment.SMOKE
    frame = experiment.sampled(experiment.settings(), 2)
    assert called
    assert np.isfinite(frame["error"]).all()
    assert len(experiment.exact(experiment.settings(), 0))


def test_the_cpu_profile_does_not(monkeypatch):
    monkeypatch.setenv("ICML26_PROFILE", "cpu")
    monkeypatch.setattr(sampled_runs, "read_on_device", lambda *a, **k: pytest.fail("the cpu profile uses numpy"))
    experiment.sampled(experiment.SMOKE, 2)


def test_seeds_are_independent_and_repeat(smoke):
    again = experiment.sampled(experiment.SMOKE, 2)
    pd.testing.assert_frame_equal(smoke["sampled"], again)
    one = smoke["sampled"].query("method == 'READ, r = 0.6' and depth == 2")
    assert one.groupby("budget")["error"].nunique().eq(2).all()


def test_every_figure_draws(smoke):
    exact, sampled = smoke["exact"], smoke["sampled"]
    read = summary.sampled_curve(sampled, 2, "READ, r = 0.6")
    curves = {2: {"clip": summary.quantum_curve(exact, 2, "clip"), "READ": read}}
    drawn = [
        figures.plot_race(curves),
        figures.plot_windows(smoke["windows"]),
        figures.plot_estimators(smoke["estimators"]),
        figures.plot_levels(smoke["read_levels"]),
        figures.plot_floor(smoke["sensitivity"]),
        figures.show_law(35, 8)[0],
        figures.show_window(4, 0.5)[0],
    ]
    assert all(figure.axes for figure in drawn)


def test_summary_refuses_what_is_not_there(smoke):
    with pytest.raises(ValueError, match="method"):
        summary.quantum_curve(smoke["exact"], 2, "nonsense")
    with pytest.raises(ValueError, match="method"):
        summary.sampled_curve(smoke["sampled"], 2, "nonsense")
    with pytest.raises(ValueError, match="cost_variance"):
        summary.read_curve(float("nan"), np.array([1.0]))


def test_summary_on_a_curve_with_a_known_law():
    eps = np.geomspace(1e-1, 1e-6, 12)
    curve = pd.DataFrame({"cost": np.log(1 / eps) ** 3 / eps, "rmse": eps, "level": np.arange(12)})
    assert summary.corrected_exponent(curve, 3) == pytest.approx(1.0, abs=1e-9)
    assert summary.log_power(curve) == pytest.approx(3.0, abs=1e-9)
    assert summary.exponent(curve) > 1.1
    plain = pd.DataFrame({"cost": 5 / eps**2, "rmse": eps})
    assert summary.exponent(plain) == pytest.approx(2.0, abs=1e-9)
    meeting = summary.meets(curve[["cost", "rmse"]], plain.assign(cost=plain["cost"] * 0.2))
    assert meeting is not None
    # There log(1/eps)^3 / eps equals 1 / eps^2: log(1/eps)^3 = 1/eps.
    assert np.log(1 / meeting.rmse) ** 3 * meeting.rmse == pytest.approx(1.0, rel=0.1)
