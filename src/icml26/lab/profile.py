"""Which size to run at: `cpu` (never changes size with the machine), `gpu` (a free T4) or `paper` (by hand).

`ICML26_PROFILE` overrides the machine's own choice; `ICML26_SMOKE=1` shrinks any profile to a smoke test.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import torch

NAMES = ("cpu", "gpu", "paper")

T = TypeVar("T")


@dataclass(frozen=True)
class Profile:
    """The profile in force.

    Attributes:
        name: `"cpu"`, `"gpu"` or `"paper"`.
        smoke: whether everything is shrunk to a smoke test of the same code path.
    """

    name: str
    smoke: bool = False

    def __post_init__(self) -> None:
        _known("name", self.name)

    @property
    def label(self) -> str:
        """The name in file names: `"cpu"`, or `"cpu-smoke"`: a smoke run never overwrites a real one."""
        return f"{self.name}-smoke" if self.smoke else self.name

    @property
    def device(self) -> "torch.device":
        """Where tensors live: the CPU in the `cpu` profile, else the CUDA device.

        Without a CUDA device, `paper` and every smoke run use the CPU.

        Raises:
            RuntimeError: the `gpu` profile was asked for on a machine without a CUDA device.
        """
        import torch

        if self.name == "cpu":
            return torch.device("cpu")
        if torch.cuda.is_available():
            return torch.device("cuda")
        if self.name == "gpu" and not self.smoke:
            raise RuntimeError(
                "ICML26_PROFILE=gpu asks for a CUDA device and this machine has none: "
                "use ICML26_PROFILE=cpu, or ICML26_SMOKE=1 to try the code path on the CPU"
            )
        return torch.device("cpu")


def current() -> Profile:
    """The profile of this run: `ICML26_PROFILE` if set, else `gpu` when torch sees a CUDA device, else `cpu`.

    Raises:
        ValueError: `ICML26_PROFILE` names no profile, or `ICML26_SMOKE` is neither 0 nor 1.
    """
    smoke = os.environ.get("ICML26_SMOKE", "").strip() or "0"
    if smoke not in ("0", "1"):
        raise ValueError(f"ICML26_SMOKE must be 0 or 1, got {smoke!r}")
    name = os.environ.get("ICML26_PROFILE", "").strip()
    if name:
        _known("ICML26_PROFILE", name)
    else:
        name = "gpu" if _cuda() else "cpu"
    return Profile(name, smoke == "1")


def choose(settings: Mapping[str, T], smoke: T) -> T:
    """The settings object of the current profile.

    Args:
        settings: profile name -> settings.
        smoke: what a smoke run uses, whatever the profile.

    Raises:
        ValueError: `settings` has an unknown profile, or lacks the current one.
    """
    for name in settings:
        _known("settings", name)
    now = current()
    if now.smoke:
        return smoke
    if now.name not in settings:
        raise ValueError(f"settings has no profile {now.name!r}, only {sorted(settings)}")
    return settings[now.name]


def _cuda() -> bool:
    """Whether torch is there and sees a CUDA device."""
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()


def _known(argument: str, name: str) -> None:
    if name not in NAMES:
        raise ValueError(f"{argument}: unknown profile {name!r}, the known ones are {', '.join(NAMES)}")
