"""The command line of a chapter's experiments: `python -m icml26.<slug>.experiment --table NAME --seeds 5`."""

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import pandas as pd

from icml26.lab import profile, tables

S = TypeVar("S")


def campaign(
    package: str,
    makers: Mapping[str, Callable[[S, int], pd.DataFrame]],
    *,
    settings: S,
    depends: Mapping[str, Sequence[str]],
    deterministic: Sequence[str] = (),
    timing: Sequence[str] = ("race",),
    inputs: Mapping[str, str] | None = None,
    arguments: Sequence[str] | None = None,
) -> None:
    """Make one committed table, or all of them, from the command line's `--table NAME --seeds N`.

    Args:
        package: the chapter, e.g. "icml26.nested_expectations"; the tables go into its `tables/` folder.
        makers: table name -> function of (settings, number of seeds) that returns the rows.
        settings: a frozen dataclass; kept in the provenance.
        depends: table name -> the modules whose change makes that table stale.
        deterministic: tables that use no seeds; their provenance names none.
        timing: tables that need a quiet machine; `--table all` leaves them out.
        inputs: label -> sha256 of data that the tables were measured on.
        arguments: instead of the command line's.

    Raises:
        SystemExit: an unknown table or a number of seeds below 1, as argparse does it.
        ValueError: `depends` does not cover exactly the tables.
        RuntimeError: the profile is not `cpu`, or a smoke test is asked for: committed tables have one size.
    """
    if set(depends) != set(makers):
        raise ValueError(f"depends must name the modules of every table, {sorted(set(depends) ^ set(makers))} differ")
    parser = argparse.ArgumentParser(prog=f"python -m {package}.experiment", description="Make committed tables.")
    parser.add_argument("--table", required=True, choices=[*makers, "all"])
    parser.add_argument("--seeds", type=int, help="repetitions (default: as in the committed table, else 5)")
    chosen = parser.parse_args(arguments)
    if chosen.seeds is not None and chosen.seeds < 1:
        parser.error(f"--seeds must be at least 1, got {chosen.seeds}")
    if profile.current() != profile.Profile("cpu"):
        raise RuntimeError("committed tables are those of the cpu profile: set ICML26_PROFILE=cpu, ICML26_SMOKE=0")
    for name in [name for name in makers if name not in timing] if chosen.table == "all" else [chosen.table]:
        start = time.process_time()
        repetitions = chosen.seeds or _committed(package, name)
        frame = makers[name](settings, repetitions)
        seeds: list[Any] = [] if name in deterministic else list(range(repetitions))
        path = tables.write(
            package,
            name,
            frame,
            command=f"python -m {package}.experiment --table {name} --seeds {repetitions}",
            seeds=seeds,
            depends=depends[name],
            settings=settings,
            inputs=inputs,
            cpu_seconds=time.process_time() - start,
        )
        print(f"{path.name}: {len(frame)} rows")


def _committed(package: str, name: str) -> int:
    """The repetitions that the committed table was made with, so that making it again compares like with like."""
    try:
        command: str = tables.read(package, name).provenance["command"]
    except FileNotFoundError:
        return 5
    return int(command.rpartition("--seeds ")[2])
