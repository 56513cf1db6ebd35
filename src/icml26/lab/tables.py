"""Committed tables with their provenance: `NAME.csv` and `NAME.json` in a package's `tables/` folder.

A table says which command made it, from which seeds, inputs, settings and code, with which versions, on what
machine and in how many CPU seconds. It is stale once the code that it depends on has changed. Code means the
syntax tree without docstrings: comments and formatting change nothing.
"""

import ast
import datetime
import hashlib
import importlib.machinery
import importlib.metadata
import importlib.util
import io
import json
import operator
import os
import platform
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, SupportsIndex

import pandas as pd

from icml26.lab.ledger import write_atomically
from icml26.lab.rules import number


@dataclass(frozen=True)
class Table:
    """A committed table.

    Attributes:
        package: where it lives, e.g. "icml26.nested_expectations".
        name: its file name without the suffix.
        frame: the rows.
        provenance: how they were made, see `write`.
    """

    package: str
    name: str
    frame: pd.DataFrame
    provenance: dict[str, Any]

    def stale(self) -> list[str]:
        """Why the table should be made anew, one reason per line; empty while it is current."""
        csv = (files(self.package) / "tables" / f"{self.name}.csv").read_bytes()
        reasons = []
        if hashlib.sha256(csv).hexdigest() != self.provenance["csv_sha256"]:
            reasons.append(f"{self.name}.csv was edited after it was written")
        for module, sha in self.provenance["code"].items():
            try:
                now = code_sha256(module)
            except ValueError:
                reasons.append(f"{module} is gone")
                continue
            if now != sha:
                reasons.append(f"the code of {module} changed")
        return reasons


def write(
    package: str,
    name: str,
    frame: pd.DataFrame,
    *,
    command: str,
    seeds: Sequence[SupportsIndex],
    inputs: Mapping[str, Path | str] | None = None,
    depends: Sequence[str] = (),
    settings: Any = None,
    cpu_seconds: float | int,
) -> Path:
    """Write a table and its provenance into `<package>/tables/`.

    Floats keep ten significant digits. Columns hold numbers, bools or non-empty strings; a missing value is
    an empty cell (of a float or string column only).

    Args:
        package: importable package that lies in a folder, e.g. "icml26.nested_expectations".
        name: lower-case file name without suffix.
        frame: at least one row, with a plain 0..n-1 index and different column names.
        command: what makes this table again.
        seeds: the seeds used; empty for a deterministic table.
        inputs: label -> file (its sha256 is taken) or a sha256 that is known already.
        depends: modules (a package stands for all its files) whose change makes the table stale.
        settings: a dataclass or a mapping that JSON can hold.
        cpu_seconds: what making it cost.

    Returns:
        The path of the CSV.

    Raises:
        TypeError: a column holds something else.
        ValueError: an argument is not as above; the message says which.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ValueError(f"name must be like 'race_small', got {name!r}")
    if not command.strip():
        raise ValueError("command must say what makes the table again, got an empty text")
    if number("cpu_seconds", cpu_seconds) < 0:
        raise ValueError(f"cpu_seconds must not be negative, got {cpu_seconds}")
    kinds = _kinds(frame)
    folder = _folder(package)
    csv = frame.to_csv(index=False, float_format="%.10g", lineterminator="\n")
    provenance = {
        "command": command,
        "seeds": [operator.index(seed) for seed in seeds],
        "settings": _settings(settings),
        "inputs": {label: _input_sha256(label, source) for label, source in (inputs or {}).items()},
        "code": {module: code_sha256(module) for module in depends},
        "versions": _versions(depends),
        "columns": kinds,
        "csv_sha256": hashlib.sha256(csv.encode()).hexdigest(),
        "cpu_seconds": round(float(cpu_seconds), 2),
        "machine": machine(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }
    try:
        text = json.dumps(provenance, indent=1, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"settings must be what JSON can hold, got {settings!r}: {error}") from error
    path = folder / f"{name}.csv"
    write_atomically(path, csv)
    write_atomically(path.with_suffix(".json"), text + "\n")
    return path


def read(package: str, name: str) -> Table:
    """Read a committed table through `importlib.resources`, so also from an installed package.

    Raises:
        FileNotFoundError: there is no such table; the message says what makes it.
        ValueError: the CSV does not hold the columns that its provenance names.
    """
    folder = files(package) / "tables"
    csv, provenance = folder / f"{name}.csv", folder / f"{name}.json"
    if not (csv.is_file() and provenance.is_file()):
        items = folder.iterdir() if folder.is_dir() else ()
        there = sorted(item.name[:-4] for item in items if item.name.endswith(".csv"))
        raise FileNotFoundError(
            f"{package} has no table {name!r} (it has: {', '.join(there) or 'none'}); "
            f"make it with: python -m {package}.experiment --table {name} --seeds 5"
        )
    origin = json.loads(provenance.read_text(encoding="utf-8"))
    kinds: dict[str, str] = origin["columns"]
    # Only an empty cell is missing: a method may well be called "NA" or "none".
    frame = pd.read_csv(
        io.StringIO(csv.read_text(encoding="utf-8")),
        dtype={column: object if kind == "str" else kind for column, kind in kinds.items()},
        keep_default_na=False,
        na_values=[""],
    )
    if list(frame.columns) != list(kinds):
        raise ValueError(
            f"{name}.csv has the columns {list(frame.columns)}, its provenance says {list(kinds)}"
        )
    return Table(package, name, frame, origin)


def status(root: str = "icml26") -> list[tuple[str, str, list[str]]]:
    """Every committed table under a package: (package, name, why it is stale), sorted.

    Raises:
        ValueError: `root` is not a package in a folder.
    """
    found = []
    for folder in _locations(root):
        for csv in folder.rglob("tables/*.csv"):
            package = ".".join([root, *csv.parent.parent.relative_to(folder).parts])
            found.append((package, csv.stem, read(package, csv.stem).stale()))
    return sorted(found)


def code_sha256(module: str) -> str:
    """sha256 of a module's code, or of all modules of a package: syntax trees, docstrings left out.

    The same for every Python version that parses the file to the same tree. Nothing is imported but the
    parent packages.

    Raises:
        ValueError: there is no such module, or it has no Python source.
    """
    return _sha256(tuple(_sources(module).items()))


@cache  # by the text itself: the tables of a chapter depend on the same few files
def _sha256(sources: tuple[tuple[str, str], ...]) -> str:
    digest = hashlib.sha256()
    for label, text in sources:
        digest.update(label.encode())
        for part in _canonical(ast.parse(text)):
            digest.update(part.encode())
    return digest.hexdigest()


def _sources(module: str) -> dict[str, str]:
    """The text of a module (under the label ''), or of each file of a package (under its path)."""
    spec = _spec(module)
    if spec.submodule_search_locations:
        folder = Path(next(iter(spec.submodule_search_locations)))
        sources = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*.py")}
    elif spec.origin and spec.origin.endswith(".py"):
        sources = {"": Path(spec.origin)}
    else:
        raise ValueError(f"module {module!r} has no Python source, only {spec.origin}")
    return {label: sources[label].read_text(encoding="utf-8") for label in sorted(sources)}


def _canonical(node: object) -> Iterator[str]:
    """A syntax tree as text. `ast.dump` will not do: what it leaves out differs between Python versions."""
    if isinstance(node, ast.AST):
        yield f"({type(node).__name__}"
        for field, value in ast.iter_fields(node):
            if field == "body" and isinstance(node, _WITH_DOCSTRING) and ast.get_docstring(node) is not None:
                value = value[1:]
            constant = isinstance(node, ast.Constant) and field == "value"  # where None is a value
            if not constant and (value is None or value == [] or field in _IRRELEVANT):
                continue
            yield f" {field}="
            yield from _canonical(value)
        yield ")"
    elif isinstance(node, list):
        yield "["
        for item in node:
            yield from _canonical(item)
            yield ","
        yield "]"
    else:
        yield f"{type(node).__name__}:{node!r}"


_IRRELEVANT = ("ctx", "kind", "type_comment", "type_ignores")
_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def _spec(module: str) -> importlib.machinery.ModuleSpec:
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        spec = None
    if spec is None:
        raise ValueError(f"there is no module {module!r}")
    return spec


def _locations(package: str) -> list[Path]:
    spec = _spec(package)
    if not spec.submodule_search_locations:
        raise ValueError(f"package must be a package in a folder, {package!r} is a module")
    return [Path(location) for location in spec.submodule_search_locations]


def _folder(package: str) -> Path:
    return _locations(package)[0] / "tables"


def _kinds(frame: pd.DataFrame) -> dict[str, str]:
    """Column -> "float64", "int64", "bool" or "str"; refuses what a CSV would lose."""
    if frame.empty:
        raise ValueError(f"frame must have rows and columns, got the shape {frame.shape}")
    for column in frame.columns:
        if not isinstance(column, str) or not column.strip() or "\r" in column:
            raise ValueError(f"frame: each column needs a name, got {column!r}")
    if not frame.columns.is_unique:
        raise ValueError(f"frame: each column name once, got {list(frame.columns)}")
    if not frame.index.equals(pd.RangeIndex(len(frame))):
        raise ValueError("frame: the index is not written, so it must be 0..n-1: call reset_index() first")
    return {column: _kind(frame[column]) for column in frame.columns}


def _kind(column: "pd.Series[Any]") -> str:
    kind = getattr(column.dtype, "kind", "O")
    if kind in "fiub" and isinstance(column.dtype, type(column.to_numpy().dtype)):
        if kind == "u" and column.max() >= 2**63:
            raise ValueError(f"frame: column {column.name!r} holds {column.max()}, beyond 64-bit integers")
        return {"f": "float64", "i": "int64", "u": "int64", "b": "bool"}[kind]
    values = column.dropna()
    text = isinstance(column.dtype, pd.StringDtype) or column.dtype == object
    if not (text and all(isinstance(value, str) for value in values)):
        raise TypeError(
            f"frame: column {column.name!r} must hold numbers, bools or strings, got {column.dtype}"
        )
    if (values == "").any():
        raise ValueError(f"frame: column {column.name!r} holds an empty string, in a CSV that is no value")
    if any("\r" in value for value in values):
        raise ValueError(f"frame: column {column.name!r} holds a carriage return, in a CSV that ends a row")
    return "str"


def _settings(settings: Any) -> Any:
    if settings is not None and is_dataclass(settings) and not isinstance(settings, type):
        return asdict(settings)
    if settings is None or isinstance(settings, Mapping):
        return dict(settings or {})
    raise ValueError(f"settings must be a dataclass or a mapping, got {type(settings).__name__}")


def _input_sha256(label: str, source: Path | str) -> str:
    if isinstance(source, Path):
        with source.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    if not re.fullmatch(r"[0-9a-f]{64}", source):
        raise ValueError(f"inputs[{label!r}] must be a Path or a sha256 in hex, got {source!r}")
    return source


def _versions(depends: Sequence[str]) -> dict[str, str]:
    """Python, NumPy, pandas, and every distribution that the modules depended on import."""
    names = {"numpy", "pandas"}
    for module in depends:
        for text in _sources(module).values():
            names |= _imported(ast.parse(text))
    owners = _owners()
    found = {owner for name in names - set(sys.stdlib_module_names) for owner in owners.get(name, ())}
    return {"python": platform.python_version()} | {
        owner: importlib.metadata.version(owner) for owner in sorted(found)
    }


@cache
def _owners() -> Mapping[str, list[str]]:
    """Top-level module -> the distributions it comes from; reading all their metadata takes seconds."""
    return importlib.metadata.packages_distributions()


def _imported(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


def machine() -> dict[str, Any]:
    """This machine in general words: how many cores, of which processor."""
    return {"cores": os.cpu_count(), "cpu": _cpu()}


def _cpu() -> str:
    """The processor's model, as far as the system tells."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def main() -> int:
    """`python -m icml26.lab.tables`: each committed table and why it is stale; status 1 if one is."""
    rows = status()
    for package, name, reasons in rows:
        print(f"{package}:{name}: {'; '.join(reasons) or 'current'}")
    return int(any(reasons for _, _, reasons in rows))


if __name__ == "__main__":
    sys.exit(main())
