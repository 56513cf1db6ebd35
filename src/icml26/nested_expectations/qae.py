"""Amplitude estimation: the exact law of one run, and four estimators that use it.

A circuit `A` prepares a flag qubit with P(flag = 1) = a = sin²θ. The Grover operator
Q = −A S₀ A† S_flag turns by ±2θ, and phase estimation with M = 2ᵗ phase states returns
j with a law known in closed form, so that error curves need no sampling at all.

Cost unit everywhere: one application of A or of A†.

Sources: Brassard, Høyer, Mosca and Tapp 2002 (quant-ph/0005055; canonical estimation); Suzuki et al.
2020 (arXiv 1904.10246; maximum likelihood); Grinko et al. 2021 (arXiv 1912.05559; iterative). The
cosine window is the one of PennyLane's `CosineWindow`.
"""

from typing import Literal, cast, get_args

import numpy as np
from jaxtyping import Complex, Float

__all__ = ["Window", "outcome_law"]

Window = Literal["flat", "cosine"]


def _check_states(M: int) -> None:
    if isinstance(M, bool) or not isinstance(M, (int, np.integer)):
        raise TypeError(f"M must be an int (number of phase states), got {type(M).__name__}")
    if M < 2 or M & (int(M) - 1):
        raise ValueError(f"M must be a power of two, at least 2, got {M}")


def window_amplitudes(M: int, window: str) -> Float[np.ndarray, "M"]:
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


def _check_amplitude(a: float | Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
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
