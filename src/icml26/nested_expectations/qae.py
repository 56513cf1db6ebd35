"""Amplitude estimation: the exact law of one run, and four estimators that use it.

A circuit `A` prepares a flag qubit with P(flag = 1) = a = sin²θ. The Grover operator
Q = −A S₀ A† S_flag turns by ±2θ, and phase estimation with M = 2ᵗ phase states returns
j with a law known in closed form, so that error curves need no sampling at all.

Cost unit everywhere: one application of A or of A†.

Sources: Brassard, Høyer, Mosca and Tapp 2002 (quant-ph/0005055; canonical estimation); Suzuki et al.
2020 (arXiv 1904.10246; maximum likelihood); Grinko et al. 2021 (arXiv 1912.05559; iterative). The
cosine window is the one of PennyLane's `CosineWindow`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, Protocol, cast, get_args, runtime_checkable

import numpy as np
from jaxtyping import Complex, Float, Int
from scipy.optimize import brentq, minimize_scalar
from scipy.special import betainc, xlogy
from scipy.stats import beta, binom, chi2, norm

__all__ = [
    "Estimate",
    "ExactOracle",
    "Oracle",
    "Window",
    "canonical",
    "cosine",
    "iqae",
    "median_law",
    "mlae",
    "outcome_law",
    "sample",
    "window_amplitudes",
]

Window = Literal["flat", "cosine"]


def _check_states(M: int) -> None:
    if isinstance(M, bool) or not isinstance(M, (int, np.integer)):
        raise TypeError(f"M must be an int (number of phase states), got {type(M).__name__}")
    if M < 2 or M & (int(M) - 1):
        raise ValueError(f"M must be a power of two, at least 2, got {M}")


def window_amplitudes(M: int, window: str) -> Float[np.ndarray, "m"]:
    """Real amplitudes w_k of the phase register before the controlled Grover powers, ‖w‖ = 1.

    "flat": 1/√M. "cosine": √(2/M)·cos(πk/M − π/2), hence w_0 = 0.
    Raises ValueError for an unknown window or an M that is not a power of two ≥ 2.
    """
    _check_states(M)
    if window not in get_args(Window):
        raise ValueError(f"window must be 'flat' or 'cosine', got {window!r}")
    if window == "flat":
        return np.full(M, M**-0.5)
    return cast(np.ndarray, np.sqrt(2 / M) * np.sin(np.pi * np.arange(M) / M))


def _check_amplitude(a: float | int | Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
    checked = np.asarray(a, dtype=np.float64)
    if checked.size == 0:
        raise ValueError("a must hold at least one probability, got an empty batch")
    wrong = ~((checked >= 0) & (checked <= 1))  # true for NaN too
    if wrong.any():
        raise ValueError(f"a must lie in [0, 1], got {checked[wrong].flat[0]}")
    return checked


def outcome_law(
    a: float | int | Float[np.ndarray, "*n"], M: int, window: str = "flat"
) -> tuple[Float[np.ndarray, "m"], Float[np.ndarray, "*n m"]]:
    """Exact law of the estimate of `a` by one windowed phase estimation (float64).

    P(j) = ½[K_w(θ/π − j/M) + K_w(−θ/π − j/M)], K_w(x) = |Σ_k w_k e^{2πikx}|²/M (Brassard et al. 2002,
    theorem 11, for any window). j and M − j give the same estimate sin²(πj/M), so their masses are added.

    Args:
        a: probability of the flag, a number or any array of them.
        M: number of phase states, a power of two; one run costs 2M − 1 applications of A or A†.
        window: "flat" (canonical) or "cosine".

    Returns:
        values [M/2 + 1], increasing from 0 to 1, and probs [..., M/2 + 1] with the leading shape of `a`.

    Raises:
        ValueError: a outside [0, 1] or NaN, an empty batch, M no power of two ≥ 2, an unknown window.
    """
    w = window_amplitudes(M, window)
    amplitude = _check_amplitude(a)
    theta = np.arctan2(np.sqrt(amplitude), np.sqrt(1 - amplitude))
    turned: Complex[np.ndarray, "*n M"] = w * np.exp(2j * theta[..., None] * np.arange(M))
    kernel = np.abs(np.fft.fft(turned, axis=-1)) ** 2 / M  # K_w(θ/π − j/M) for every j
    half = M // 2
    probs = kernel[..., : half + 1].copy()
    probs[..., 1:half] += kernel[..., :half:-1]  # K_w(−θ/π − j/M) = K_w(θ/π − (M − j)/M)
    values = np.sin(np.pi * np.arange(half + 1) / M) ** 2
    return values, probs


def _check_repeats(K: int, name: str) -> None:
    if isinstance(K, bool) or not isinstance(K, (int, np.integer)):
        raise TypeError(f"{name} must be an int, got {type(K).__name__}")
    if K < 1 or K % 2 == 0:
        raise ValueError(f"{name} must be odd and positive (an even number has no middle run), got {K}")


def _check_law(values: Float[np.ndarray, "m"], probs: Float[np.ndarray, "*n m"]) -> None:
    if values.size == 0 or probs.size == 0:
        raise ValueError("probs must hold at least one law, got an empty batch")
    if not np.all(np.diff(values) > 0):
        raise ValueError("values must increase strictly")
    if not np.all(probs >= -1e-12) or np.any(np.abs(probs.sum(axis=-1) - 1) > 1e-9):
        raise ValueError("probs must be non-negative and sum to 1 within 1e-9")


def median_law(
    values: Float[np.ndarray, "m"], probs: Float[np.ndarray, "*n m"], K: int
) -> tuple[Float[np.ndarray, "m"], Float[np.ndarray, "*n m"]]:
    """Exact law of the median of K independent estimates.

    With F the distribution function of one run, the median's is P(Binomial(K, F) ≥ (K + 1)/2), a
    regularised incomplete beta function.

    Args:
        values: support [m], strictly increasing.
        probs: laws [..., m], each summing to 1.
        K: number of runs, odd.

    Raises:
        ValueError: K even or below 1, values not increasing, probs no law, an empty batch.
    """
    _check_repeats(K, "K")
    _check_law(values, probs)
    h = (K + 1) // 2
    below = np.clip(np.cumsum(probs, axis=-1), 0.0, 1.0)
    below[..., -1] = 1.0
    return values, np.diff(betainc(h, h, below), axis=-1, prepend=0.0)


def sample(
    values: Float[np.ndarray, "m"], probs: Float[np.ndarray, "m"], size: int, rng: np.random.Generator
) -> Float[np.ndarray, "size"]:
    """Draw `size` independent estimates from one law by inverting its distribution function."""
    _check_law(values, probs)
    if size < 1:
        raise ValueError(f"size must be at least 1, got {size}")
    below = np.cumsum(probs)
    return values[np.searchsorted(below / below[-1], rng.random(size), side="right")]


@runtime_checkable
class Oracle(Protocol):
    """What an estimator may ask of a quantum algorithm A: two kinds of measured counts."""

    def phase_counts(self, M: int, window: str, shots: int) -> Int[np.ndarray, "m"]:
        """Counts [M/2 + 1] of the folded phase outcome min(j, M − j) over `shots` runs."""
        ...

    def flag_counts(self, power: int, shots: int) -> int:
        """How often the flag reads 1 after Q^power A, over `shots` runs."""
        ...


class ExactOracle:
    """An `Oracle` that draws from the exact laws of a known amplitude `a` (no circuit)."""

    def __init__(self, a: float, rng: np.random.Generator):
        self.a = float(_check_amplitude(a))
        self.rng = rng

    def phase_counts(self, M: int, window: str, shots: int) -> Int[np.ndarray, "m"]:
        _, probs = outcome_law(self.a, M, window)
        return self.rng.multinomial(shots, probs / probs.sum())

    def flag_counts(self, power: int, shots: int) -> int:
        theta = np.arctan2(np.sqrt(self.a), np.sqrt(1 - self.a))
        return int(self.rng.binomial(shots, np.sin((2 * power + 1) * theta) ** 2))


@dataclass(frozen=True)
class Estimate:
    """A point estimate of a probability with a confidence interval and its exact cost.

    `queries` counts applications of A or A† over all runs; `interval` is (low, high) in [0, 1].
    """

    estimate: float
    interval: tuple[float, float]
    queries: int
    confidence: float


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie in (0, 1), got {confidence}")


def half_width(M: int, window: str, repeats: int, confidence: float) -> int:
    """Smallest k such that the median of `repeats` runs has |j − Mθ/π| ≤ k with the given confidence.

    Valid for every θ: the mass of K_w within k steps is minimised over where θ falls between two phases,
    and folding j with M − j can only bring an outcome nearer. The median is outside only if at least
    half of the runs are.
    """
    _check_repeats(repeats, "repeats")
    _check_confidence(confidence)
    offset = np.linspace(0.0, 0.5, 33)[:, None]  # K_w is even, so half a step is enough
    turned = window_amplitudes(M, window) * np.exp(2j * np.pi * offset / M * np.arange(M))
    kernel = np.abs(np.fft.fft(turned, axis=-1)) ** 2 / M
    half = M // 2
    right = np.cumsum(kernel[:, 1 : half + 1], axis=-1)  # j = 1 … k
    left = np.cumsum(np.roll(kernel[:, ::-1], 1, axis=-1)[:, :half], axis=-1)  # j = 0, −1 … −k + 1
    inside = (right + left).min(axis=0)
    success = binom.cdf((repeats - 1) // 2, repeats, np.clip(1 - inside, 0.0, 1.0))
    enough = np.flatnonzero(success >= confidence)
    return int(enough[0]) + 1 if enough.size else half


def _phase_estimate(oracle: Oracle, M: int, window: str, repeats: int, confidence: float) -> Estimate:
    k = half_width(M, window, repeats, confidence)
    counts = oracle.phase_counts(M, window, repeats)
    j = int(np.searchsorted(np.cumsum(counts), (repeats + 1) // 2))
    low, value, high = np.sin(np.pi * np.clip([j - k, j, j + k], 0, M // 2) / M) ** 2
    return Estimate(float(value), (float(low), float(high)), repeats * (2 * M - 1), confidence)


def canonical(oracle: Oracle, M: int, repeats: int = 1, confidence: float = 0.95) -> Estimate:
    """Amplitude estimation with the flat window (Brassard et al. 2002); the median if repeats > 1.

    The error's tail falls like 1/x² only: the RMSE of one run goes down like M^{-1/2}, not 1/M.
    Raises ValueError for even repeats, M no power of two, confidence outside (0, 1).
    """
    return _phase_estimate(oracle, M, "flat", repeats, confidence)


def cosine(oracle: Oracle, M: int, repeats: int = 1, confidence: float = 0.95) -> Estimate:
    """Amplitude estimation with the cosine window: tail 1/x⁴, so one run has RMSE O(1/M).

    Its mean is exactly ½ + cos(π/M)(a − ½). Raises as `canonical`.
    """
    return _phase_estimate(oracle, M, "cosine", repeats, confidence)


def _check_shots(shots: int) -> None:
    if isinstance(shots, bool) or not isinstance(shots, (int, np.integer)):
        raise TypeError(f"shots must be a whole number, got {shots!r}")
    if shots < 1:
        raise ValueError(f"shots must be at least 1, got {shots}")


def _deviance(
    theta: float | Float[np.ndarray, "n"], odd: Int[np.ndarray, "k"], ones: Int[np.ndarray, "k"], shots: int
) -> np.float64 | Float[np.ndarray, "n"]:
    """−2·log likelihood at θ of `ones` successes in `shots` with P = sin²(odd·θ), up to a constant."""
    angle = np.multiply.outer(theta, odd)
    terms = xlogy(ones, np.sin(angle) ** 2) + xlogy(shots - ones, np.cos(angle) ** 2)
    return cast("np.float64 | np.ndarray", -2 * terms.sum(axis=-1))


def mlae(
    oracle: Oracle,
    powers: Sequence[int],
    shots: int = 100,
    confidence: float = 0.95,
    interval: Literal["likelihood-ratio", "fisher"] = "likelihood-ratio",
) -> Estimate:
    """Maximum likelihood amplitude estimation (Suzuki et al. 2020): no phase register.

    Measures the flag `shots` times after each Q^m A, m in `powers` (P(1) = sin²((2m + 1)θ)), and
    maximises the joint likelihood over θ in [0, π/2]. Costs shots·Σ(2m + 1).

    interval: "likelihood-ratio" (hull of the θ within the χ² threshold) or "fisher"
    (± z·√(a(1 − a)/(shots·Σ(2m + 1)²)), of zero width when the estimate is 0 or 1).
    Raises ValueError for no powers, a negative power, shots < 1, an unknown interval.
    """
    _check_shots(shots)
    _check_confidence(confidence)
    for power in powers:
        if isinstance(power, bool) or not isinstance(power, (int, np.integer)):
            raise TypeError(f"powers must be whole numbers, got {power!r}")
    if len(powers) == 0 or min(powers) < 0:
        raise ValueError(f"powers must be non-negative and at least one, got {list(powers)}")
    if interval not in ("likelihood-ratio", "fisher"):
        raise ValueError(f"interval must be 'likelihood-ratio' or 'fisher', got {interval!r}")
    ones = [oracle.flag_counts(m, shots) for m in powers]

    odd = 2 * np.asarray(powers) + 1
    deviance = partial(_deviance, odd=odd, ones=np.asarray(ones), shots=shots)

    # About eight grid points per standard deviation of the sharpest factor.
    grid = np.linspace(0.0, np.pi / 2, int(8 * np.sqrt(shots) * (2 * max(powers) + 1)) + 16)
    curve = np.asarray(deviance(grid))
    best = int(np.argmin(curve))
    around = (grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)])
    theta = float(
        minimize_scalar(
            lambda t: float(deviance(t)), bounds=around, method="bounded", options={"xatol": 1e-13}
        ).x
    )
    if float(deviance(theta)) > curve[best]:
        theta = float(grid[best])  # the bounded search never returns an end point
    a = float(np.sin(theta) ** 2)
    if interval == "fisher":
        reach = norm.ppf((1 + confidence) / 2) * np.sqrt(a * (1 - a) / (shots * float(np.sum(odd**2))))
        low, high = max(a - reach, 0.0), min(a + reach, 1.0)
    else:
        limit = float(deviance(theta)) + chi2.ppf(confidence, 1)

        within = np.append(np.flatnonzero(curve <= limit), best)
        ends = []
        for first, beyond in ((int(within.min()), -1), (int(within.max()), 1)):
            if 0 <= first + beyond < len(grid):
                inner = theta if curve[first] > limit else grid[first]
                ends.append(brentq(lambda t: float(deviance(t)) - limit, inner, grid[first + beyond]))
            else:
                ends.append(grid[first])
        low, high = np.sin(ends) ** 2
    return Estimate(a, (float(low), float(high)), shots * int(odd.sum()), confidence)


def iqae(
    oracle: Oracle, epsilon: float, shots: int = 100, confidence: float = 0.95, ratio: float | int = 2.0
) -> Estimate:
    """Iterative amplitude estimation (Grinko et al. 2021) with Clopper–Pearson intervals.

    Raises the Grover power as fast as the interval for θ allows (all of (2m + 1)[θ_l, θ_u] within one
    quadrant), until the interval for `a` is at most 2·epsilon wide. A power is used in at most
    1 + log_ratio(π/4ε) stages; the s-th look at the same power spends 6/(πs)² of its stage's error
    share, so the union bound covers repeated looks too.

    Raises ValueError for epsilon outside (0, 0.5), shots < 1, confidence outside (0, 1), ratio ≤ 1.
    """
    _check_shots(shots)
    _check_confidence(confidence)
    if not 0 < epsilon < 0.5:
        raise ValueError(f"epsilon must lie in (0, 0.5), got {epsilon}")
    if not ratio > 1:
        raise ValueError(f"ratio must exceed 1, got {ratio}")
    stages = int(np.log(np.pi / (4 * epsilon)) / np.log(ratio)) + 1
    low, high = 0.0, np.pi / 2
    power, ones, seen, looks, queries = 0, 0, 0, 0, 0
    while np.sin(high) ** 2 - np.sin(low) ** 2 > 2 * epsilon:
        raised = _next_power(power, low, high, ratio)
        if raised != power:
            power, ones, seen, looks = raised, 0, 0, 0
        ones += oracle.flag_counts(power, shots)
        seen, looks, queries = seen + shots, looks + 1, queries + shots * (2 * power + 1)
        share = (1 - confidence) / stages * 6 / (np.pi * looks) ** 2
        least = float(beta.ppf(share / 2, ones, seen - ones + 1)) if ones > 0 else 0.0
        most = float(beta.ppf(1 - share / 2, ones + 1, seen - ones)) if ones < seen else 1.0
        odd = 2 * power + 1
        quadrant = int(odd * (low + high) / np.pi)  # the middle lies safely inside the quadrant
        angles = np.arcsin(np.sqrt([least, most]))
        if quadrant % 2:  # here the flag's probability falls with the angle
            angles = np.pi / 2 - angles[::-1]
        found = (quadrant * np.pi / 2 + angles) / odd
        if found[0] <= high and found[1] >= low:
            low, high = max(low, float(found[0])), min(high, float(found[1]))
        else:  # the rare event that an earlier interval missed: trust the finer look
            low, high = float(found[0]), float(found[1])
    ends = (float(np.sin(low) ** 2), float(np.sin(high) ** 2))
    return Estimate((ends[0] + ends[1]) / 2, ends, queries, confidence)


def _next_power(power: int, low: float, high: float, ratio: float | int) -> int:
    """Largest m with (2m + 1)[low, high] in one quadrant and 2m + 1 ≥ ratio·(2·power + 1), else `power`."""
    largest = int(np.pi / 2 / (high - low)) if high > low else 2 * power + 1
    odd = largest - (largest + 1) % 2
    while odd >= ratio * (2 * power + 1):
        first = np.floor(2 * odd * low / np.pi)
        if 2 * odd * high / np.pi <= first + 1:
            return (odd - 1) // 2
        odd -= 2
    return power
