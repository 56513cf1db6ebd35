"""How large the experiments are, profile by profile."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """Sizes of the experiments.

    levels, bits: for each depth D = 1, 2, 3, the last level of the emulator and its register.
    budgets: sampler draws of the classical methods. read_draws: READ draws for the cost tail.
    """

    levels: tuple[int, int, int]
    bits: tuple[int, int, int]
    budgets: tuple[int, ...]
    read_draws: int
    window_bits: int = 12
    qubits: int = 2


SETTINGS = {
    "cpu": Settings((14, 15, 9), (19, 20, 16), (1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20), 1_000_000),
    "gpu": Settings((15, 16, 11), (20, 21, 18), tuple(1 << k for k in range(12, 23, 2)), 100_000_000, 14),
    "paper": Settings((16, 17, 13), (21, 21, 20), tuple(1 << k for k in range(12, 27, 2)), 1_000_000_000, 16),
}
SMOKE = Settings((2, 2, 1), (8, 8, 8), (64, 128), 200, 7)
