"""The smoke settings run every table by the code path of the real ones, on both sides of the profile."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from icml26.nested_expectations import exercises, experiment, figures, sampled_runs, summary


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
    (won,) = summary.wins(curve[["cost", "rmse"]], plain.assign(cost=plain["cost"] * 0.2))
    # There log(1/eps)^3 / eps equals 1 / eps^2, so log(1/eps)^3 = 1/eps: solved by eps = 0.0106 or so.
    eps = np.interp(np.log(won[0]), np.log(curve["cost"]), np.log(curve["rmse"]))
    assert np.exp(eps) * np.log(1 / np.exp(eps)) ** 3 == pytest.approx(1.0, rel=0.1)
    assert won[1] == pytest.approx(min(curve["cost"].max(), 0.2 * plain["cost"].max()))


def test_wins_sees_a_lead_that_is_lost_again():
    cost = np.geomspace(1.0, 1e4, 9)
    level = pd.DataFrame({"cost": cost, "rmse": np.full(9, 1.0)})
    dip = pd.DataFrame({"cost": cost, "rmse": [2.0, 2, 2, 0.5, 0.5, 0.5, 2, 2, 2]})
    ((start, end),) = summary.wins(dip, level)
    assert cost[2] < start < cost[3]
    assert cost[5] < end < cost[6]
    assert summary.wins(level.assign(rmse=3.0), level) == []
    assert len(summary.wins(level, dip)) == 2


def test_the_envelope_is_the_best_at_every_cost():
    cost = np.geomspace(1.0, 1e4, 9)
    falling = pd.DataFrame({"cost": cost, "rmse": 1 / cost})
    flat = pd.DataFrame({"cost": cost[2:7], "rmse": np.full(5, 0.02)})
    best = summary.envelope(falling, flat)
    expected = np.minimum.accumulate(np.where((cost >= cost[2]) & (cost <= cost[6]), np.fmin(1 / cost, 0.02), 1 / cost))
    assert np.allclose(best["rmse"], expected)


def test_an_unknown_register_is_refused(smoke):
    with pytest.raises(ValueError, match="bits"):
        summary.quantum_curve(smoke["exact"], 2, "clip", bits=99)


@pytest.mark.parametrize("skipped", [0, 1])
def test_the_likelihood_exercise_sees_a_power_left_out(skipped):
    """Of a correct solution, and of one that leaves out a power, only the correct one passes."""

    def solution(left_out):
        def estimate(ones, shots, powers):
            theta = np.linspace(1e-6, np.pi / 2 - 1e-6, 20_001)
            total = np.zeros_like(theta)
            for i, (k, m) in enumerate(zip(ones, powers, strict=True)):
                if len(powers) == 1 or i != left_out:
                    total += binom.logpmf(k, shots, np.sin((2 * m + 1) * theta) ** 2)
            return float(np.sin(theta[np.argmax(total)]) ** 2)

        return estimate

    check = dict(exercises.EXERCISES["likelihood"].tests)["it is where the likelihood is largest"]
    assert check(solution(None)) is None
    assert check(solution(skipped))


def test_the_queries_exercise_refuses_a_table():
    check = dict(exercises.EXERCISES["queries"].tests)["it counts what stands on the tape"]
    assert check(lambda M: 2 * M - 1) is None
    assert check(lambda M: {2: 3, 4: 7, 16: 31}.get(M, 0))
