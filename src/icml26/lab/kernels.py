"""Triton kernels, checked where there is no GPU.

Import this module before `triton`: without CUDA it sets `TRITON_INTERPRET=1`, so that kernels run as
numpy on the CPU. That shows whether a kernel computes the right thing (`check`). Whether it compiles for
the GPUs that readers have is another question (`compile_check`).

A chapter's kernels begin like this:

    from typing import no_type_check
    from icml26.lab import kernels  # before triton
    import triton
    import triton.language as tl

    @no_type_check  # its annotations are Triton's, not shapes to check
    @triton.jit
    def scale_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr): ...
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from icml26.lab.compiling import (
    SHARED_LIMIT,
    CompileResult,
    KernelCompileError,
    SharedMemoryError,
    compile_check,
)

__all__ = [
    "SHARED_LIMIT",
    "CompileResult",
    "KernelCompileError",
    "Report",
    "SharedMemoryError",
    "check",
    "compile_check",
    "device",
    "interpreting",
]


def _choose_interpreter() -> None:
    """Without CUDA, have Triton interpret kernels, unless the reader decided otherwise."""
    if "TRITON_INTERPRET" in os.environ or torch.cuda.is_available():
        return
    os.environ["TRITON_INTERPRET"] = "1"
    # Triton makes up its mind when it is imported, and torch imports it with the first optimizer that is
    # made. So it is imported again; what was compiled for a GPU before could not run here anyway. Its
    # binary part stays, since it cannot be loaded twice.
    old = [name for name in sys.modules if name.partition(".")[0] == "triton"]
    stale = [sys.modules.pop(name) for name in old if not name.startswith("triton._C")]
    gone = {id(module) for module in stale}
    holders = [
        name
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] not in ("triton", "torch", "__mp_main__")
        and any(id(value) in gone for value in list(getattr(module, "__dict__", {}).values()))
    ]
    if holders:
        warnings.warn(
            f"{', '.join(holders)} imported triton before icml26.lab.kernels, and there is no CUDA: kernels "
            "defined there cannot run here; import icml26.lab.kernels first or set TRITON_INTERPRET=1",
            RuntimeWarning,
            stacklevel=3,
        )


_choose_interpreter()


def interpreting() -> bool:
    """True iff Triton kernels defined now run in the interpreter (on CPU tensors)."""
    return os.environ.get("TRITON_INTERPRET", "").lower() in ("1", "true", "yes", "on", "y")


def device() -> torch.device:
    """Where a kernel's arguments belong: the GPU, or the CPU when kernels are interpreted."""
    return torch.device("cpu" if interpreting() or not torch.cuda.is_available() else "cuda")


@dataclass(frozen=True)
class Report:
    """What `check` compared. `ok` iff nothing failed; `require()` raises otherwise.

    worst is the largest |kernel - twin| / (atol + rtol |twin|) over all values and gradients, so 1 is the
    limit; NaN and shape mismatches count as infinite.
    """

    cases: int
    outputs: int
    gradients: int
    worst: float
    failures: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return not self.failures

    def require(self) -> Report:
        """This report; AssertionError with every failure if there is one."""
        if self.failures:
            raise AssertionError(str(self))
        return self

    def __str__(self) -> str:
        head = (
            f"{self.cases} cases, {self.outputs} outputs and {self.gradients} gradients compared; "
            f"largest error {self.worst:.2g} of what is allowed"
        )
        return "\n".join([head, *(f"  ✗ {failure}" for failure in self.failures)])


def check(
    kernel: Callable[..., Any],
    twin: Callable[..., Any],
    cases: Sequence[Sequence[Any] | Mapping[str, Any]],
    rtol: float = 1e-5,
    atol: float = 1e-6,
) -> Report:
    """Compare a kernel with its twin in plain torch: values, dtypes, shapes, devices and gradients.

    Parameters
    ----------
    kernel : a function of tensors that launches the kernel, for example an `autograd.Function`'s `apply`.
    twin : the same in plain torch; its dtypes and shapes are the truth.
    cases : arguments of each call, as a tuple or list (positional) or dict (keywords). Where a floating
        tensor has `requires_grad`, gradients are compared too, for one random cotangent per case.
    rtol, atol : allowed |kernel - twin| <= atol + rtol |twin|, elementwise. NaN equals NaN. Integers and
        booleans must be equal.

    Arguments and outputs may be nested dicts, lists and tuples. Neither function sees the other's tensors:
    both get copies with the same strides. What the kernel writes
    into its arguments counts as output. An exception in the kernel is a failure of its case; one in the twin
    is raised.

    Raises ValueError for no cases or negative tolerances, TypeError for a case that is no tuple, list, dict.
    """
    if not cases:
        raise ValueError("cases: got none, expected at least one")
    if not (rtol >= 0 and atol >= 0):
        raise ValueError(f"rtol, atol: got {rtol} and {atol}, expected numbers >= 0")
    tally = _Tally(rtol, atol)
    for number, case in enumerate(cases):
        if not isinstance(case, tuple | list | Mapping):
            raise TypeError(f"cases: case {number} is {type(case).__name__}, expected a tuple, list or dict")
        _compare_case(kernel, twin, case, number, tally)
    return Report(len(cases), tally.outputs, tally.gradients, tally.worst, tuple(tally.failures))


class _Tally:
    def __init__(self, rtol: float, atol: float) -> None:
        self.rtol, self.atol = rtol, atol
        self.outputs = self.gradients = 0
        self.worst = 0.0
        self.failures: list[str] = []

    def fail(self, where: str, what: str) -> None:
        self.failures.append(f"{where}: {what}")
        self.worst = float("inf")

    def compare(self, where: str, got: Any, expected: Tensor) -> None:
        """One tensor with its twin: type, dtype, shape, device, then values."""
        if not isinstance(got, Tensor):
            return self.fail(where, f"is {type(got).__name__}, expected a tensor")
        for name in ("dtype", "shape", "device"):
            mine, theirs = getattr(got, name), getattr(expected, name)
            if mine != theirs:
                return self.fail(where, f"{name} is {_plain(mine)}, expected {_plain(theirs)}")
        if not (expected.is_floating_point() or expected.is_complex()):
            return self._compare_exactly(where, got, expected)
        a, b = (tensor.detach().to(_wide(tensor.dtype)) for tensor in (got, expected))
        same = (a == b) | (a.isnan() & b.isnan())  # equal infinities too, whose difference is NaN
        ratio = (a - b).abs() / (self.atol + self.rtol * b.abs())
        ratio = torch.where(same, torch.zeros_like(ratio), ratio.nan_to_num(nan=torch.inf, posinf=torch.inf))
        ratio = torch.where(~same & ~b.isfinite(), torch.full_like(ratio, torch.inf), ratio)
        if not ratio.numel():
            return None
        largest = float(ratio.max())
        self.worst = max(self.worst, largest)
        if largest > 1:
            at = tuple(int(i) for i in torch.unravel_index(ratio.argmax(), ratio.shape))
            self.failures.append(
                f"{where}: {int((ratio > 1).sum())} of {ratio.numel()} values differ, most at {at}: "
                f"{got[at].item()!r}, expected {expected[at].item()!r}"
            )
        return None

    def _compare_exactly(self, where: str, got: Tensor, expected: Tensor) -> None:
        """Integers and booleans have no rounding, and float64 would not tell 2**53 from its successor."""
        wrong = got != expected
        if bool(wrong.any()):
            at = tuple(int(i) for i in torch.unravel_index(wrong.int().argmax(), wrong.shape))
            self.fail(
                where,
                f"{int(wrong.sum())} of {wrong.numel()} values differ, first at {at}: "
                f"{got[at].item()!r}, expected {expected[at].item()!r}",
            )


def _compare_case(
    kernel: Callable[..., Any], twin: Callable[..., Any], case: Any, number: int, tally: _Tally
) -> None:
    where = f"case {number}"
    theirs, expected = _call(twin, case)
    try:
        mine, got = _call(kernel, case)
    except Exception as error:
        return tally.fail(where, f"the kernel raised {type(error).__name__}: {error}")
    if len(got) != len(expected):
        return tally.fail(where, f"{len(got)} outputs, expected {len(expected)}")
    if got.keys() != expected.keys():
        return tally.fail(where, f"outputs are {', '.join(got)}, expected {', '.join(expected)}")
    for i, b in expected.items():
        a = got[i]
        if isinstance(b, Tensor):
            tally.outputs += 1
            tally.compare(f"{where}, output {i}", a, b)
        elif isinstance(a, Tensor) or a != b:
            tally.fail(f"{where}, output {i}", f"is {a!r}, expected {b!r}")
    for name, b in theirs.items():
        tally.compare(f"{where}, argument {name} after the call", mine[name], b)
    wanted = {name: tensor for name, tensor in theirs.items() if tensor.requires_grad}
    if wanted:
        pairs = [(got[i], b) for i, b in expected.items()]
        _compare_gradients(mine, wanted, pairs, where, number, tally)
    return None


def _compare_gradients(
    mine: dict[str, Tensor],
    wanted: dict[str, Tensor],
    outputs: list[tuple[Any, Any]],
    where: str,
    number: int,
    tally: _Tally,
) -> None:
    pairs = [
        (a, b)
        for a, b in outputs
        if isinstance(a, Tensor) and isinstance(b, Tensor) and a.shape == b.shape and b.requires_grad
    ]
    if not pairs:
        return None
    if not all(a.requires_grad for a, _ in pairs):
        return tally.fail(where, "an output has no gradient, its twin has one")
    generator = torch.Generator().manual_seed(number)
    cotangents = [torch.randn(b.shape, generator=generator).to(b) for _, b in pairs]
    truth = torch.autograd.grad([b for _, b in pairs], list(wanted.values()), cotangents, allow_unused=True)
    try:
        own = torch.autograd.grad(
            [a for a, _ in pairs],
            [mine[name] for name in wanted],
            [v.to(a.dtype) for v, (a, _) in zip(cotangents, pairs, strict=True)],
            allow_unused=True,
        )
    except Exception as error:
        return tally.fail(where, f"the kernel's backward pass raised {type(error).__name__}: {error}")
    for name, a, b in zip(wanted, own, truth, strict=True):
        spot = f"{where}, gradient of argument {name}"
        if a is None or b is None:
            if a is not b:
                tally.fail(spot, f"is {_there(a)}, expected {_there(b)}")
            continue
        tally.gradients += 1
        tally.compare(spot, a, b)
    return None


def _call(function: Callable[..., Any], case: Any) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Run on copies; returns the copied tensors and the outputs, each by its place ("0", "x", "0.bias")."""
    named = dict(case) if isinstance(case, Mapping) else {str(i): value for i, value in enumerate(case)}
    copies = {name: _copy(value) for name, value in named.items()}
    # The places are found before the call, which may put other tensors into a dict or list.
    tensors = {place: leaf for place, leaf in _leaves(copies).items() if isinstance(leaf, Tensor)}
    result = function(**copies) if isinstance(case, Mapping) else function(*copies.values())
    return tensors, _leaves(result if isinstance(result, tuple | list | Mapping) else [result])


def _leaves(value: Any, place: str = "") -> dict[str, Any]:
    """What (nested) dicts, lists and tuples hold, by place."""
    if isinstance(value, Mapping):
        items = [(str(name), item) for name, item in value.items()]
    elif isinstance(value, tuple | list):
        items = [(str(i), item) for i, item in enumerate(value)]
    else:
        return {place: value}
    found: dict[str, Any] = {}
    for name, item in items:
        found |= _leaves(item, f"{place}.{name}" if place else name)
    return found


def _copy(value: Any) -> Any:
    """The same numbers in fresh memory with the same strides, in dicts, lists and tuples too."""
    if isinstance(value, Mapping):
        return {name: _copy(item) for name, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_copy(item) for item in value))
    if isinstance(value, tuple | list):
        return type(value)(_copy(item) for item in value)
    if not isinstance(value, Tensor):
        return value
    fresh = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
    overlapping = any(s == 0 and n > 1 for s, n in zip(value.stride(), value.shape, strict=True))
    fresh = value.detach() if overlapping else fresh.copy_(value.detach())
    return fresh.requires_grad_(value.requires_grad)


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.complex128 if dtype.is_complex else torch.float64


def _plain(value: Any) -> str:
    return str(tuple(value)) if isinstance(value, torch.Size) else str(value)


def _there(gradient: Tensor | None) -> str:
    return "missing" if gradient is None else "there"
