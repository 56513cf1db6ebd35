"""Would installing the book on Colab replace a package that is there? `make colab-check`: seconds, metadata
only.

For every extra that a chapter's first cell may name, and for every dated list in `constraints/colab/`, uv
resolves the package for Colab's Python with the listed versions as constraints. No resolution means that pip
would have to replace one of them (exit 1); what is in the resolution but not in the list is what the first
cell downloads.
`--constraints` asks another thing: do constraints.txt and pyproject.toml fit together, for Linux, macOS and
Windows.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import commands

# Not for Colab: what builds and checks the book, and what only tables and races need.
ELSEWHERE = {"book", "dev", "peers"}
# The public torch wheel asks for the CUDA libraries of its own build; Colab's torch is there and stays.
TORCH = '\n[[tool.uv.dependency-metadata]]\nname = "torch"\nversion = "{version}"\nrequires-dist = []\n'
SYSTEMS = {
    "x86_64-manylinux_2_28": ("3.11", "3.12", "3.13"),
    "aarch64-manylinux_2_28": ("3.12",),
    "aarch64-apple-darwin": ("3.12",),
    "x86_64-pc-windows-msvc": ("3.12",),
}


@dataclass(frozen=True)
class Runtime:
    """What a Colab runtime has installed. `versions`: normalised name -> version without local part."""

    name: str
    python: str
    versions: dict[str, str]

    @property
    def constraints(self) -> str:
        """The versions as a constraints file."""
        return "".join(f"{name}=={version}\n" for name, version in self.versions.items())


def normal(name: str) -> str:
    """A package's name as the index knows it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read_runtime(path: Path) -> Runtime:
    """Read a stored `pip freeze` list. Its first line names the Python version, e.g. "… Python 3.13.15 …".

    Local versions (+cu128) and the lines of CUDA libraries are dropped. Raises ValueError without a Python
    version.
    """
    lines = path.read_text(encoding="utf-8").splitlines()
    python = re.search(r"Python (\d+\.\d+)", lines[0])
    if python is None:
        raise ValueError(f"{path.name}: the first line names no Python version, expected a comment with 'Python 3.x.y'")
    versions = {}
    for line in lines:
        match = re.fullmatch(r"([A-Za-z0-9._-]+)==([^+;\s]+)(?:\+\S+)?", line.strip())
        if match and not normal(match[1]).startswith(("nvidia-", "cuda-")):
            versions[normal(match[1])] = match[2]
    return Runtime(path.stem, python[1], versions)


def runtimes(root: Path = commands.ROOT) -> list[Runtime]:
    """The stored lists, newest first."""
    paths = (root / "constraints" / "colab").glob("*.txt")
    return [read_runtime(path) for path in sorted(paths, key=lambda p: p.stem.split("-", 1)[1], reverse=True)]


def extras(pyproject: str) -> list[str]:
    """The extras that a first cell may install, "" (the core alone) first."""
    named = tomllib.loads(pyproject)["project"].get("optional-dependencies", {})
    return ["", *sorted(set(named) - ELSEWHERE)]


def compile_pins(pyproject: str, constraints: str, options: list[str]) -> tuple[list[str], str]:
    """Resolve with uv: (pins "name==version", "") or ([], why there is none)."""
    with tempfile.TemporaryDirectory() as folder:
        project, limits = Path(folder) / "pyproject.toml", Path(folder) / "constraints.txt"
        project.write_text(pyproject, encoding="utf-8")
        limits.write_text(constraints, encoding="utf-8")
        command = [*_uv(), "pip", "compile", str(project), "-c", str(limits), "--quiet", "--no-header"]
        command += ["--no-annotate", "--only-binary", ":all:", *options]
        environment = {**os.environ, "UV_PYTHON_DOWNLOADS": "never", "MACOSX_DEPLOYMENT_TARGET": "14.0"}
        ran = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder)
    if ran.returncode:
        return [], ran.stderr.strip()
    return [line for line in ran.stdout.splitlines() if "==" in line], ""


def _uv() -> list[str]:
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.exists() else shutil.which("uv")
    if found is None:
        raise RuntimeError("uv is not installed; `make test` installs it with the extra dev")
    return [found]


def check(pyproject: str, runtime: Runtime, extra: str) -> tuple[list[str], str]:
    """What the first cell of a chapter downloads on a runtime, or why it would replace something there.

    pyproject: the text of pyproject.toml. Returns (pins that are not in the list, "") or ([], the resolver's
    words).
    """
    if "torch" in runtime.versions:
        pyproject += TORCH.format(version=runtime.versions["torch"])
    options = ["--python-version", runtime.python, "--python-platform", "x86_64-manylinux_2_28"]
    pins, why = compile_pins(pyproject, runtime.constraints, options + (["--extra", extra] if extra else []))
    names = {pin: normal(pin.partition("==")[0]) for pin in pins}
    replaced = [p for p in pins if (have := runtime.versions.get(names[p])) and p.partition("==")[2].split()[0] != have]
    if replaced:  # a version that only the constraint's spelling let through
        return [], f"would replace {', '.join(replaced)}"
    return [pin for pin in pins if names[pin] not in runtime.versions], why


def check_colab(root: Path) -> bool:
    """Print what every extra downloads on every runtime; True when nothing is replaced anywhere."""
    pyproject = (root / "pyproject.toml").read_text(encoding="utf-8")
    fine = bool(runtimes(root))
    for runtime in runtimes(root):
        print(f"{runtime.name} (Python {runtime.python}, {len(runtime.versions)} packages)", flush=True)
        with ThreadPoolExecutor(4) as pool:  # waiting for the index, not computing
            results = list(pool.map(lambda extra, on=runtime: check(pyproject, on, extra), extras(pyproject)))
        for extra, (pins, why) in zip(extras(pyproject), results, strict=True):
            print(
                f"  {extra or '(core)'}: "
                + (f"CONFLICT\n{why}" if why else f"downloads {', '.join(pins) or 'nothing'}")
            )
            fine = fine and not why
    return fine


def check_constraints(root: Path) -> bool:
    """Print for each system whether constraints.txt fits pyproject.toml; True when it does everywhere."""
    pyproject = (root / "pyproject.toml").read_text(encoding="utf-8")
    constraints = (root / "constraints.txt").read_text(encoding="utf-8")
    pinned = {normal(line.partition("==")[0]) for line in constraints.splitlines() if "==" in line}
    fine = True
    for system, versions in SYSTEMS.items():
        for version in versions:
            options = ["--python-version", version, "--python-platform", system]
            pins, why = compile_pins(pyproject, constraints, [*options, "--extra=all", "--extra=book", "--extra=dev"])
            loose = [pin for pin in pins if normal(pin.partition("==")[0]) not in pinned]
            loose = [pin for pin in loose if not pin.startswith(("nvidia-", "cuda-", "setuptools=", "wheel=", "pip="))]
            print(
                f"{system}, Python {version}: "
                + (f"CONFLICT\n{why}" if why else f"fits; not pinned: {loose or 'none'}")
            )
            fine = fine and not why
    return fine


def main(arguments: list[str] | None = None) -> int:
    options = commands.options(__doc__)
    options.add_argument("--constraints", action="store_true", help="check constraints.txt instead")
    parsed = options.parse_args(arguments)
    return not (check_constraints if parsed.constraints else check_colab)(parsed.root)


if __name__ == "__main__":
    sys.exit(main())
