"""Races on known ratios, exponents of known powers, and times that carry their sign."""

import re
import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from icml26 import lab
from icml26.lab.race import Race, clock

# The mask of the stored outputs: what it does not cover would be compared.
MASK = re.compile(r"⏱ ?\d+(\.\d+)? ?(s|ms|µs|us|min)")


def _sleep(seconds):
    return lambda: time.sleep(seconds)


def test_a_known_ratio_of_sleeps():
    """Sleeping is exact to a fraction of a millisecond even on a busy machine: 90 ms against 30 ms."""
    outcome = lab.race({"long": _sleep(0.090), "short": _sleep(0.030)}, reference="long", memory=False)
    median, low, high = outcome.ratio("short")
    assert median == pytest.approx(3, rel=0.1)
    assert low <= median <= high
    assert low * 0.98 <= 3 <= high * 1.05  # a sleep overruns by a constant, so the ratio falls a little short
    assert outcome.ratio("long") == (1.0, 1.0, 1.0)
    assert np.median(outcome.seconds["short"]) == pytest.approx(0.030, rel=0.2)


def test_a_machine_that_slows_down_does_not_move_the_ratio(monkeypatch):
    """On a simulated clock: the machine gets 20 % slower each round, which the paired rounds cancel.

    Run one contestant after the other and the same drift would make the second look 20**0.7 times worse.
    """
    clock_ = {"now": 0.0, "calls": 0}

    def work(seconds):
        def call():
            clock_["now"] += seconds * 1.2 ** (
                (clock_["calls"] - 2) // 2
            )  # two warm-up calls, then rounds of two
            clock_["calls"] += 1

        return call

    monkeypatch.setattr("time.perf_counter", lambda: clock_["now"])
    outcome = lab.race({"slow": work(3.0), "quick": work(1.0)}, reference="slow", memory=False)
    assert outcome.seconds["slow"] == pytest.approx(3 * 1.2 ** np.arange(7))
    assert outcome.ratio("quick") == pytest.approx((3, 3, 3))


def test_calls_shorter_than_the_clock_s_grain_are_repeated():
    counts = {"a": 0, "b": 0}

    def count(name):
        def call():
            counts[name] += 1

        return call

    def slow():
        counts["b"] += 1
        time.sleep(0.003)

    outcome = lab.race({"a": count("a"), "b": slow}, reference="a", repeats=3, warmup=2, memory=False)
    assert counts["b"] == 2 + 3
    assert counts["a"] > 1000
    assert np.median(outcome.seconds["a"]) < 1e-4


def test_rounds_are_interleaved_and_shuffled():
    calls = []

    def enter(name):
        def call():
            calls.append(name)
            time.sleep(0.0025)

        return call

    names = ["a", "b", "c"]
    lab.race({name: enter(name) for name in names}, reference="a", repeats=20, memory=False)
    rounds = [tuple(calls[k : k + 3]) for k in range(3, 63, 3)]
    assert len(calls) == 63
    assert all(sorted(order) == names for order in rounds)
    assert len(set(rounds)) >= 4  # of the six orders


def test_the_memory_of_an_allocation_is_seen():
    def big():
        return np.ones(50_000_000 // 8).sum()

    def small():
        return np.ones(10).sum()

    outcome = lab.race({"big": big, "small": small}, reference="small", repeats=2)
    if outcome.where == "CUDA":
        pytest.skip("NumPy's memory is not on the device")
    assert outcome.peak_bytes["big"] == pytest.approx(50e6, rel=0.02)
    assert outcome.peak_bytes["small"] < 1e5
    assert outcome.frame.set_index("contestant").loc["big", "peak_mb"] == pytest.approx(50, rel=0.02)
    assert not tracemalloc.is_tracing()


def test_memory_under_a_tracer_that_runs_already():
    tracemalloc.start()
    try:
        ballast = np.ones(20_000_000 // 8)
        outcome = lab.race(
            {"a": lambda: np.ones(10_000_000 // 8), "b": lambda: None}, reference="a", repeats=2
        )
        assert tracemalloc.is_tracing()
        if outcome.where != "CUDA":
            assert outcome.peak_bytes["a"] == pytest.approx(10e6, rel=0.02)  # not the ballast
        assert ballast.nbytes == 20_000_000
    finally:
        tracemalloc.stop()


def _race(ratios):
    ratios = np.asarray(ratios, dtype=float)
    return Race("a", {"a": ratios, "b": np.ones(len(ratios))}, {"a": None, "b": None}, "")


@pytest.mark.parametrize("rounds", [6, 7, 8, 9, 15, 40])
def test_the_interval_is_scipy_s(rounds):
    ratios = np.random.default_rng(rounds).lognormal(size=rounds)
    _, low, high = _race(ratios).ratio("b")
    expected = stats.quantile_test(ratios, q=1, p=0.5).confidence_interval(0.95)
    assert (low, high) == (expected.low, expected.high)


@pytest.mark.parametrize("rounds", [7, 11])
def test_the_interval_covers_as_often_as_it_says(rounds):
    """Over 2000 simulated races with skewed noise and a true median ratio of 2."""
    draws = 2 * np.random.default_rng(0).lognormal(sigma=0.5, size=(2000, rounds)) ** 1.5
    races = [_race(draw) for draw in draws]
    covered = np.mean([low <= 2 <= high for _, low, high in (race.ratio("b") for race in races)])
    assert races[0].coverage >= 0.95
    assert covered == pytest.approx(races[0].coverage, abs=4 * np.sqrt(0.05 * 0.95 / 2000))


def test_few_rounds_say_how_little_they_cover():
    assert _race([1, 2]).coverage == pytest.approx(0.5)
    assert _race([1, 2, 3]).coverage == pytest.approx(0.75)
    assert _race(np.arange(1, 8)).coverage == pytest.approx(1 - 2 / 2**7)


def test_show_prints_no_bare_time(capsys):
    outcome = Race(
        "loop",
        {"loop": np.full(7, 1.25), "vectorised": np.array([0.01, 0.011, 0.012, 0.0125, 0.013, 0.014, 0.02])},
        {"loop": 12_300_000, "vectorised": None},
        "Python and NumPy",
    )
    outcome.show()
    out = capsys.readouterr().out
    assert out.splitlines() == [
        "7 interleaved rounds, medians; × = times faster than loop [98 % interval]; "
        "peak memory: Python and NumPy",
        "loop        ⏱ 1.25 s  reference  12.3 MB",
        "vectorised  ⏱ 12.5 ms  100 × [62.5, 125]",
    ]
    assert not re.search(r"\d ?(s|ms|µs|min)\b", MASK.sub("", out))


def test_frame_has_a_row_per_contestant_in_the_order_of_entry():
    outcome = _race([2.0, 4.0, 3.0])
    frame = outcome.frame
    assert frame["contestant"].tolist() == ["a", "b"]
    row = frame.iloc[1]
    assert (row["ratio"], row["ratio_low"], row["ratio_high"]) == (3.0, 2.0, 4.0)
    assert (row["median_seconds"], row["rounds"], row["reference"]) == (1.0, 3, "a")


def test_an_error_of_a_contestant_is_not_swallowed():
    with pytest.raises(ZeroDivisionError):
        lab.race({"a": lambda: 1 / 0, "b": lambda: 1}, reference="b")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"contestants": {"a": int}}, "contestants must be at least two"),
        ({"reference": "c"}, "reference must be one of"),
        ({"repeats": 1}, "repeats must be at least 2"),
        ({"warmup": 0}, "warmup must be at least 1"),
    ],
)
def test_what_is_no_race(changes, words):
    with pytest.raises(ValueError, match=words):
        lab.race(**{"contestants": {"a": int, "b": int}, "reference": "a", **changes})
    with pytest.raises(ValueError, match="'x' did not race, the contestants are a, b"):
        _race([1, 2]).ratio("x")


@given(st.floats(-3, 3), st.floats(1e-9, 1e3), st.integers(3, 8))
def test_the_exponent_of_an_exact_power(power, factor, points):
    sizes = 2 ** np.arange(1, points + 1)
    slope, low, high = lab.exponent(sizes, factor * sizes.astype(float) ** power)
    assert slope == pytest.approx(power, abs=1e-9)
    assert low <= slope <= high
    assert high - low < 1e-6
    assert lab.exponent(sizes.tolist(), [2] * points) == (0.0, 0.0, 0.0)


def test_the_exponent_s_interval_covers_and_is_a_t_interval():
    rng = np.random.default_rng(1)
    sizes = np.array([10, 20, 40, 80, 160])
    covered = 0
    for _ in range(400):
        _, low, high = lab.exponent(sizes, sizes**1.5 * np.exp(rng.normal(scale=0.2, size=5)))
        covered += low <= 1.5 <= high
    assert covered / 400 == pytest.approx(0.95, abs=4 * np.sqrt(0.05 * 0.95 / 400))


@pytest.mark.parametrize(
    ("sizes", "seconds", "words"),
    [
        ([1, 2], [1, 2], "at least 3"),
        ([1, 2, 3], [1, 2], "equally long"),
        ([1, 2, 0], [1, 2, 3], "sizes must be positive"),
        ([1, 2, 3], [1, -2, 3], "seconds must be positive"),
        ([1, 2, 3], [1, np.nan, 3], "seconds must be positive and finite"),
        ([2, 2, 2], [1, 2, 3], "sizes must differ"),
    ],
)
def test_what_has_no_exponent(sizes, seconds, words):
    with pytest.raises(ValueError, match=words):
        lab.exponent(sizes, seconds)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "⏱ 0.00 µs"),
        (4.56e-8, "⏱ 0.05 µs"),
        (1.234e-5, "⏱ 12.3 µs"),
        (0.01234, "⏱ 12.3 ms"),
        (0.9996, "⏱ 1000 ms"),
        (1.234, "⏱ 1.23 s"),
        (9.996, "⏱ 10.0 s"),
        (119.4, "⏱ 119 s"),
        (120, "⏱ 2.00 min"),
        (86400, "⏱ 1440 min"),
    ],
)
def test_clock(seconds, text):
    assert clock(seconds) == text
    assert MASK.fullmatch(text)


@given(st.floats(0, 1e9))
def test_every_time_is_masked(seconds):
    assert MASK.fullmatch(clock(seconds))


@pytest.mark.parametrize("bad", [-1e-9, float("nan"), float("inf")])
def test_no_clock_shows_it(bad):
    with pytest.raises(ValueError, match="seconds must be finite"):
        clock(bad)


def test_took(capsys):
    with lab.took("training"):
        time.sleep(0.02)
    with lab.took():
        pass
    first, second = capsys.readouterr().out.splitlines()
    value = re.fullmatch(r"training: ⏱ (\d+\.\d) ms", first)
    assert value
    assert 20 <= float(value.group(1)) < 200
    assert MASK.fullmatch(second)


def test_took_says_nothing_of_a_block_that_failed(capsys):
    def fail():
        with lab.took():
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert capsys.readouterr().out == ""


def test_sizes_that_differ_by_rounding_alone_have_no_exponent():
    with pytest.raises(ValueError, match="sizes must differ by more than rounding"):
        lab.exponent([1e16, 1e16 + 2, 1e16], [1.0, 2.0, 3.0])
