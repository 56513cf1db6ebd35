"""Peers side by side: times as ratios with intervals, never bare; scaling exponents; peak memory.

Every time that is printed carries the sign ⏱, so that a comparison of outputs knows it for a time.
"""

import gc
import math
import random
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float, Real
from scipy.special import bdtr, stdtrit

# A contestant quicker than this is called several times per round, so that the clock's grain does not matter.
_SHORTEST = 2e-3


@dataclass(frozen=True)
class Race:
    """The outcome of `race`.

    Attributes:
        reference: the contestant that the ratios refer to.
        seconds: contestant -> wall seconds per call, one entry per round, rounds paired across contestants.
        peak_bytes: contestant -> peak of memory over one call, None where it was not asked for.
        where: what `peak_bytes` counts.
    """

    reference: str
    seconds: dict[str, Float[np.ndarray, "rounds"]]
    peak_bytes: dict[str, int | None]
    where: str

    def ratio(self, name: str) -> tuple[float, float, float]:
        """How many times faster than the reference: (median, low, high) of the paired rounds.

        (low, high) is the order-statistic interval of the median. Whatever the distribution of the times, it
        covers with at least 95 % from six rounds on; with fewer it is the whole range, see `coverage`.
        (A bootstrapped median would be the usual choice, but with seven rounds it covers 87 %, not 95 %.)

        Raises:
            ValueError: unknown contestant.
        """
        if name not in self.seconds:
            raise ValueError(f"name {name!r} did not race, the contestants are {', '.join(self.seconds)}")
        ratios = np.sort(self.seconds[self.reference] / self.seconds[name])
        skipped = _skipped(len(ratios))
        return float(np.median(ratios)), float(ratios[skipped]), float(ratios[-1 - skipped])

    @property
    def rounds(self) -> int:
        """How many rounds were run."""
        return len(self.seconds[self.reference])

    @property
    def coverage(self) -> float:
        """The probability with which the ratios' intervals cover the true median ratio (at least)."""
        return 1 - 2 * float(bdtr(_skipped(self.rounds), self.rounds, 0.5))

    @property
    def frame(self) -> pd.DataFrame:
        """One row per contestant, in the order of entry: seconds, ratio with interval, peak MB, rounds."""
        rows = []
        for name, seconds in self.seconds.items():
            median, low, high = self.ratio(name)
            peak = self.peak_bytes[name]
            rows.append(
                {
                    "contestant": name,
                    "reference": self.reference,
                    "median_seconds": float(np.median(seconds)),
                    "ratio": median,
                    "ratio_low": low,
                    "ratio_high": high,
                    "peak_mb": math.nan if peak is None else peak / 1e6,
                    "rounds": self.rounds,
                }
            )
        return pd.DataFrame(rows)

    def show(self) -> None:
        """Print one line per contestant: time, ratio to the reference with its interval, peak memory."""
        percent = math.floor(100 * self.coverage)
        print(
            f"{self.rounds} interleaved rounds, medians; × = times faster than {self.reference} "
            f"[{percent} % interval]{f'; peak memory: {self.where}' if self.where else ''}"
        )
        width = max(map(len, self.seconds))
        for name, seconds in self.seconds.items():
            median, low, high = self.ratio(name)
            peak = self.peak_bytes[name]
            against = "reference" if name == self.reference else f"{median:.3g} × [{low:.3g}, {high:.3g}]"
            memory = "" if peak is None else f"  {peak / 1e6:.3g} MB"
            print(f"{name:<{width}}  {clock(float(np.median(seconds)))}  {against}{memory}")


def race(
    contestants: Mapping[str, Callable[[], object]],
    *,
    reference: str,
    repeats: int = 7,
    warmup: int = 1,
    memory: bool = True,
    seed: int = 0,
) -> Race:
    """Time peers fairly: in rounds, each round calling every contestant once, in an order shuffled anew.

    A slow spell of the machine then hits all of a round, and the ratio is taken within rounds. The garbage
    collector runs between, not during calls; CUDA work is waited for. Calls shorter than 2 ms are repeated
    within a round. Memory is measured in one call of its own, after the rounds: tracing costs time. It is the
    peak of CUDA memory where torch has a CUDA device in use, else of what Python and NumPy allocate (torch's
    CPU memory is not seen).

    Args:
        contestants: name -> a call without arguments.
        reference: the contestant that all are compared with.
        repeats: rounds; six or more give a 95 % interval.
        warmup: untimed calls of each contestant before the first round.
        memory: whether to measure peak memory.
        seed: of the shuffling.

    Raises:
        ValueError: fewer than two contestants, an unknown reference, `repeats` < 2 or `warmup` < 1.
    """
    if len(contestants) < 2:
        raise ValueError(f"contestants must be at least two, got {list(contestants)}")
    if reference not in contestants:
        raise ValueError(f"reference must be one of {list(contestants)}, got {reference!r}")
    if repeats < 2:
        raise ValueError(f"repeats must be at least 2, got {repeats}")
    if warmup < 1:
        raise ValueError(f"warmup must be at least 1, got {warmup}: a first call compiles and fills caches")
    calls = {name: _calls(call, warmup) for name, call in contestants.items()}
    shuffler = random.Random(seed)
    order = list(contestants)
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(repeats):
        shuffler.shuffle(order)
        for name in order:
            seconds[name].append(_timed(contestants[name], calls[name]))
    peaks: dict[str, int | None] = {
        name: _peak_bytes(call) if memory else None for name, call in contestants.items()
    }
    where = "" if not memory else "CUDA" if _cuda() else "Python and NumPy"
    return Race(reference, {name: np.array(times) for name, times in seconds.items()}, peaks, where)


def exponent(
    sizes: Sequence[float | int] | Real[np.ndarray, "n"],
    seconds: Sequence[float | int] | Real[np.ndarray, "n"],
) -> tuple[float, float, float]:
    """The power p in `seconds` ~ `sizes`**p: (slope, low, high) of the log-log line, a 95 % t interval.

    Args:
        sizes: n >= 3 positive sizes, not all equal.
        seconds: n positive costs, in any unit.

    Raises:
        ValueError: the lengths differ, there are too few points, or one is not positive and finite.
    """
    x, y = np.asarray(sizes, dtype=float), np.asarray(seconds, dtype=float)
    if x.ndim != 1 or x.shape != y.shape or len(x) < 3:
        raise ValueError(f"sizes and seconds must be equally long, at least 3, got {x.shape} and {y.shape}")
    for argument, values in (("sizes", x), ("seconds", y)):
        if not (np.isfinite(values).all() and (values > 0).all()):
            raise ValueError(f"{argument} must be positive and finite, got {values.tolist()}")
    if np.ptp(x) == 0:
        raise ValueError(f"sizes must differ, got {x.tolist()}")
    u, v = np.log(x) - np.log(x).mean(), np.log(y) - np.log(y).mean()
    if np.abs(u).max() <= 1e-9:  # no slope is to be seen through the rounding of such logarithms
        raise ValueError(f"sizes must differ by more than rounding, got {x.tolist()}")
    slope = float(u @ v / (u @ u))
    # The standard error by hand: linregress gives NaN where all the costs are equal.
    error = math.sqrt(float(np.sum((v - slope * u) ** 2)) / (len(x) - 2) / float(u @ u))
    half = float(stdtrit(len(x) - 2, 0.975)) * error
    return slope, slope - half, slope + half


@contextmanager
def took(label: str = "") -> Iterator[None]:
    """Print how long the block took: `⏱ 1.23 s`, after the label."""
    start = time.perf_counter()
    yield
    print(f"{label}{': ' if label else ''}{clock(time.perf_counter() - start)}")


def clock(seconds: float | int) -> str:
    """A time with three digits, its unit and the sign that marks it as one: `⏱ 12.3 ms`.

    Raises:
        ValueError: `seconds` is negative or not finite.
    """
    if not (math.isfinite(seconds) and seconds >= 0):
        raise ValueError(f"seconds must be finite and not negative, got {seconds}")
    for size, unit in ((60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= (120 if unit == "min" else size):
            break
    value = seconds / size
    decimals = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
    return f"⏱ {value:.{decimals}f} {unit}"


def _calls(call: Callable[[], object], warmup: int) -> int:
    """Warm a contestant up; how many of its calls make one measurable timing."""
    each = min(_timed(call, 1) for _ in range(warmup))
    calls = 1
    while each * calls < _SHORTEST:
        # By tenfold steps at most: a cold first guess may be far too long, a lucky one far too short.
        calls = min(10 * calls, math.ceil(1.2 * _SHORTEST / max(each, 1e-9)))
        each = _timed(call, calls)
    return calls


def _timed(call: Callable[[], object], calls: int) -> float:
    """Wall seconds per call."""
    gc.collect(1)  # the young objects: those that calls leave behind
    was_on = gc.isenabled()
    gc.disable()
    try:
        _synchronise()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        _synchronise()
        return (time.perf_counter() - start) / calls
    finally:
        if was_on:
            gc.enable()


def _peak_bytes(call: Callable[[], object]) -> int:
    if _cuda():
        cuda = sys.modules["torch"].cuda
        gc.collect()
        cuda.reset_peak_memory_stats()
        before = int(cuda.memory_allocated())
        call()
        _synchronise()
        return int(cuda.max_memory_allocated()) - before
    nested = tracemalloc.is_tracing()
    gc.collect()
    if nested:
        tracemalloc.reset_peak()
    else:
        tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    try:
        call()
        return max(0, tracemalloc.get_traced_memory()[1] - before)
    finally:
        if not nested:
            tracemalloc.stop()


def _cuda() -> bool:
    """Whether something in this process uses a CUDA device; torch is not imported for the question."""
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.cuda.is_available()) and bool(torch.cuda.is_initialized())


def _synchronise() -> None:
    if _cuda():
        sys.modules["torch"].cuda.synchronize()


def _skipped(rounds: int) -> int:
    """How many order statistics a 95 % interval of the median leaves out at either end."""
    below = bdtr(np.arange(rounds), rounds, 0.5)  # binomial distribution function
    return max(0, int(np.searchsorted(below, 0.025)) - 1)
