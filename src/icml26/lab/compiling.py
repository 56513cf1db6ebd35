"""Does a Triton kernel compile for the GPUs that readers have? Asked on a machine without one.

Colab has Triton 3.6.0. It compiles for any target without a GPU and without torch, so it goes into an
environment of its own in the cache (0.7 GB, made once), and the kernel's source goes there alone: the
function, the `@triton.jit` helpers it calls and the constants it reads, without the module around them.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from icml26.lab.download import OfflineError, cache_dir, locked, offline

__all__ = [
    "SHARED_LIMIT",
    "TRITON",
    "CompileResult",
    "KernelCompileError",
    "SharedMemoryError",
    "compile_check",
    "compiler",
]

TRITON = "3.6.0"
SHARED_LIMIT = 48 * 1024

_TYPE = re.compile(r"\*?\*?(fp(16|32|64)|bf16|fp8e4nv|fp8e5|fp8e4b15|[iu](1|8|16|32|64))")


class KernelCompileError(RuntimeError):
    """The kernel does not compile for a target; the message is Triton's own."""


class SharedMemoryError(KernelCompileError):
    """The kernel compiles, and wants more shared memory per block than the limit."""


@dataclass(frozen=True)
class CompileResult:
    """What the compiler made of a kernel for one target: the largest over its specialisations.

    Triton compiles a kernel anew for arguments divisible by 16, which turns on vector loads and pipelining,
    so pointers are taken as aligned (torch's are) and integers as both divisible by 16 and not.

    shared_bytes : shared memory of a block. registers : of a thread. local_bytes : stack and spilled
    registers of a thread. tensor_core_ops : matrix instructions in the code. seconds : to compile.
    notes : what a reader of that GPU should know.
    """

    shared_bytes: int
    registers: int | None
    local_bytes: int | None
    tensor_core_ops: int
    seconds: float
    notes: tuple[str, ...] = ()


def compile_check(
    kernel: Any,
    signature: Mapping[str, str],
    constexprs: Mapping[str, Any],
    targets: Sequence[str] = ("sm_75", "sm_80"),
    num_warps: int = 4,
    *,
    num_stages: int = 3,
    limit: int = SHARED_LIMIT,
    timeout: float = 120.0,
) -> dict[str, CompileResult]:
    """Compile `kernel` with Triton 3.6.0 for each target, in an environment without torch or GPU.

    Parameters
    ----------
    kernel : a `@triton.jit` function, compiled or interpreted, bare or under autotune or heuristics.
    signature : type of each run-time argument: `{"x_ptr": "*fp32", "n": "i32"}`.
    constexprs : value of each compile-time argument (those with a default may be left out): numbers, texts,
        booleans, None or Triton dtypes.
    targets : compute capabilities, sm_75 (T4) and later.
    num_warps, num_stages : as at the launch; Triton's own defaults are 4 and 3.
    limit : most bytes of shared memory per block. 48 KB run everywhere without asking the driver for more.
    timeout : seconds per target. On sm_75 Triton 3.6.0 has no matrix instructions: a large `tl.dot` becomes
        scalar code that takes the assembler minutes, and runs as slowly as that sounds.

    Returns a result per target. Raises KernelCompileError (with the target and Triton's message) when it
    does not compile or takes too long, SharedMemoryError over the limit, OfflineError when the environment
    cannot be made, ValueError or TypeError for wrong arguments or a kernel that needs what is not there.
    """
    from icml26.lab.isolating import function_of, isolated_source

    function = function_of(kernel)
    types, values = _arguments(function, signature, constexprs)
    if not targets:
        raise ValueError("targets: got none, expected some of 'sm_75', 'sm_80', …")
    numbers = {target: _capability(target) for target in targets}
    for name, number in (("num_warps", num_warps), ("num_stages", num_stages)):
        if isinstance(number, bool) or number < 1:
            raise ValueError(f"{name}: got {number!r}, expected an integer >= 1")
    job = {
        "source": isolated_source(function),
        "kernel": function.__name__,
        "signature": types,
        "constexprs": values,
        "options": {"num_warps": num_warps, "num_stages": num_stages},
    }
    python = compiler()
    results = {}
    for target, capability in numbers.items():
        result = _compile(python, {**job, "capability": capability}, target, timeout)
        if result.shared_bytes > limit:
            raise SharedMemoryError(
                f"{function.__name__} wants {result.shared_bytes} bytes of shared memory per block on "
                f"{target}, limit {limit}; take smaller blocks or fewer stages than {num_stages}"
            )
        results[target] = result
    return results


def _arguments(
    function: Any, signature: Mapping[str, str], constexprs: Mapping[str, Any]
) -> tuple[dict[str, str], dict[str, Any]]:
    """The full signature in the kernel's order and the compile-time values as JSON."""
    import inspect

    parameters = inspect.signature(function).parameters
    static = [name for name, p in parameters.items() if "constexpr" in str(p.annotation)]
    run_time = [name for name in parameters if name not in static]
    if set(signature) != set(run_time):
        raise ValueError(f"signature: got {sorted(signature)}, expected the run-time arguments {run_time}")
    values = {
        name: parameters[name].default for name in static if parameters[name].default is not inspect._empty
    }
    values |= constexprs
    if set(values) != set(static):
        raise ValueError(
            f"constexprs: got {sorted(constexprs)}, expected the compile-time arguments {static}"
        )
    for name, text in signature.items():
        if not isinstance(text, str) or not _TYPE.fullmatch(text):
            raise ValueError(
                f"signature: {name} is {text!r}, expected a type such as '*fp16', 'fp32' or 'i32'"
            )
    types = {name: "constexpr" if name in values else signature[name] for name in parameters}
    return types, {name: _as_json(name, value) for name, value in values.items()}


def _as_json(name: str, value: Any) -> Any:
    value = getattr(value, "value", value) if type(value).__name__ == "constexpr" else value
    if type(value).__name__ == "dtype" and type(value).__module__.startswith("triton."):
        return {"dtype": str(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(
        f"constexprs: {name} is {type(value).__name__}, expected a number, text, boolean, None or "
        "Triton dtype"
    )


def _capability(target: str) -> int:
    match = re.fullmatch(r"sm_(\d{2,3})a?", target)
    if not match or int(match[1]) < 75:
        raise ValueError(f"targets: got {target!r}, expected 'sm_75' or later")
    return int(match[1])


def _compile(python: Path, job: dict[str, Any], target: str, timeout: float) -> CompileResult:
    """One target in one process, which is killed with its assembler when it takes too long."""
    began = time.perf_counter()
    driver = Path(__file__).with_name("compile_driver.py")
    with tempfile.TemporaryDirectory(prefix="icml26-") as work:
        task, answer = Path(work) / "job.json", Path(work) / "result.json"
        task.write_text(json.dumps(job))
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TRITON_")}
        environment |= {"TRITON_CACHE_DIR": str(cache_dir() / f"triton-{TRITON}-code"), "TMPDIR": work}
        process = subprocess.Popen(
            [str(python), "-I", str(driver), str(task), str(answer)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            raise KernelCompileError(
                f"{job['kernel']} did not compile for {target} with Triton {TRITON} in {timeout:.0f} s. "
                "Blocks are too large to unroll; on sm_75 every tl.dot is scalar code"
            ) from None
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if not answer.exists():
            tail = "\n".join(output.strip().splitlines()[-15:])
            raise KernelCompileError(
                f"{job['kernel']}: the compiler for {target} died with status {process.returncode}:\n{tail}"
            )
        result = json.loads(answer.read_text())
    if "error" in result:
        raise KernelCompileError(
            f"{job['kernel']} does not compile for {target} with Triton {TRITON}:\n{result['error']}"
        )
    notes = []
    if result["dots"] and not result["tensor_core_ops"]:
        notes.append(f"tl.dot runs without tensor cores: Triton {TRITON} emits none for {target}")
    if result["local_bytes"]:
        notes.append(f"a thread keeps {result['local_bytes']} bytes in local memory (spilled registers)")
    return CompileResult(
        result["shared_bytes"],
        result["registers"],
        result["local_bytes"],
        result["tensor_core_ops"],
        time.perf_counter() - began,
        tuple(notes),
    )


def compiler() -> Path:
    """A Python with Triton 3.6.0: this one if it has it, else one in the cache, made when missing.

    Making it downloads 0.2 GB. OfflineError, with the commands to run by hand, when that fails.
    """
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        if importlib.metadata.version("triton") == TRITON:
            return Path(sys.executable)
    tag = f"py{sys.version_info.major}.{sys.version_info.minor}"
    folder = cache_dir() / f"triton-{TRITON}-{tag}"
    python = folder / "bin" / "python"
    complete = folder / "complete"
    with locked(f"environment {folder.name}"):
        if complete.exists() and python.exists():
            return python
        install = ["--no-deps", "--only-binary", ":all:", f"triton=={TRITON}"]
        by_hand = (
            f"By hand: python -m venv {folder} && "
            f"{python} -m pip install {' '.join(install)} && touch {complete}"
        )
        if offline():
            raise OfflineError(f"compile_check needs Triton {TRITON} and ICML26_OFFLINE is set. {by_hand}")
        shutil.rmtree(folder, ignore_errors=True)  # what a killed process left
        quiet = ["--quiet", "--disable-pip-version-check", "--no-input"]
        for command in (
            [sys.executable, "-m", "venv", str(folder)],
            [str(python), "-m", "pip", "install", *quiet, *install],
        ):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                shutil.rmtree(folder, ignore_errors=True)
                last = " / ".join((done.stderr.strip() or done.stdout.strip()).splitlines()[-3:])
                raise OfflineError(f"no environment with Triton {TRITON} could be made: {last}. {by_hand}")
        complete.touch()
    return python
