"""What every chapter shares: `from icml26 import lab`.

* `profile`, `seed`: which size to run at, and the random numbers.
* `ledger`, `tables`: claims with computed verdicts; committed tables with their provenance,
  which `campaign` makes from the command line.
* `race`, `exponent`, `took`: times as ratios with intervals, scaling exponents, one marked time.
* `say`, `show_source`, `figure`, `style`, `COLOURS`, `explore`: what a notebook shows.
* `check`: exercises and their hints.
* `progress`, `download`, `cache_dir`, `train`, `kernels`: long work, files, training, GPU cores.

Everything loads on first use, so `import icml26.lab` costs milliseconds and no torch.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from icml26.lab import check as check
    from icml26.lab import kernels as kernels
    from icml26.lab import ledger as ledger
    from icml26.lab import profile as profile
    from icml26.lab import seed as seed
    from icml26.lab import tables as tables
    from icml26.lab import train as train
    from icml26.lab.campaign import campaign as campaign
    from icml26.lab.download import cache_dir as cache_dir
    from icml26.lab.download import download as download
    from icml26.lab.explore import explore as explore
    from icml26.lab.figure import COLOURS as COLOURS
    from icml26.lab.figure import figure as figure
    from icml26.lab.figure import style as style
    from icml26.lab.progress import progress as progress
    from icml26.lab.race import exponent as exponent
    from icml26.lab.race import race as race
    from icml26.lab.race import took as took
    from icml26.lab.say import say as say
    from icml26.lab.source import show_source as show_source

_MODULES = ("check", "kernels", "ledger", "profile", "seed", "tables", "train")
_NAMES = {
    "COLOURS": "figure",
    "campaign": "campaign",
    "cache_dir": "download",
    "download": "download",
    "explore": "explore",
    "exponent": "race",
    "figure": "figure",
    "progress": "progress",
    "race": "race",
    "say": "say",
    "show_source": "source",
    "style": "figure",
    "took": "race",
}

__all__ = [  # noqa: PLE0604, RUF100 - the names are resolved lazily below
    "COLOURS",
    "cache_dir",
    "campaign",
    "check",
    "download",
    "explore",
    "exponent",
    "figure",
    "kernels",
    "ledger",
    "profile",
    "progress",
    "race",
    "say",
    "seed",
    "show_source",
    "style",
    "tables",
    "took",
    "train",
]


class _Lab(ModuleType):
    """The package itself, in which a function keeps its name beside the file that defines it.

    Importing `icml26.lab.race` makes Python bind the *file* to `lab.race`; then `lab.race(...)` would work
    or fail by who imported what first. Here the function wins always; the file stays importable with
    `from icml26.lab.race import Race`.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if isinstance(value, ModuleType) and _NAMES.get(name) == name:
            value = getattr(value, name)
        super().__setattr__(name, value)


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name in _NAMES:
        value: object = getattr(import_module(f"{__name__}.{_NAMES[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


sys.modules[__name__].__class__ = _Lab
