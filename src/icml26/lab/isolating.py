"""Take a Triton kernel out of its module: its source, its helpers' and the constants they read.

The module around it may import torch or what else is not where the kernel gets compiled.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import math
import sys
import textwrap
from types import FunctionType, ModuleType
from typing import Any

__all__ = ["function_of", "isolated_source"]


def function_of(kernel: Any) -> FunctionType:
    """The Python function in a Triton kernel, whatever is wrapped around it. TypeError if it is none."""
    function = _bare(kernel)
    if function is kernel or not isinstance(function, FunctionType):
        raise TypeError(f"kernel: got {type(kernel).__name__}, expected a @triton.jit function")
    return function


def isolated_source(function: FunctionType) -> str:
    """A file with nothing but `function` and what it needs, for a Python that has only Triton.

    ValueError when it reads something that cannot be carried over.
    """
    parts: list[str] = []
    _carry(function, "@triton.jit", parts, {function.__name__: function})
    # As texts the annotations are never evaluated: a pointer may be annotated with a torch type.
    head = ["from __future__ import annotations", "import triton", "import triton.language as tl"]
    return "\n".join(head) + "\n\n\n" + "\n\n".join(parts) + "\n"


def _bare(value: Any) -> Any:
    """Without the layers that jit, autotune, heuristics and constexpr_function put around a function."""
    inner = value
    while not isinstance(inner, FunctionType) and hasattr(inner, "fn"):
        inner = inner.fn
    return inner


def _carry(function: FunctionType, decorator: str, parts: list[str], seen: dict[str, Any]) -> None:
    """Append what `function` reads, then itself. `seen`: what each name of the new file stands for."""
    lines = textwrap.dedent(inspect.getsource(function)).splitlines()
    node = ast.parse("\n".join(lines)).body[0]
    assert isinstance(node, ast.FunctionDef)
    around = {**function.__globals__, **inspect.getclosurevars(function).nonlocals}
    # A name that is not there is a builtin, or wrong: then the compiler says so.
    for name in sorted(_reads(node) & around.keys()):
        value = _bare(around[name])
        if name in seen:
            if seen[name] is not value and seen[name] != value:
                raise ValueError(
                    f"kernel: {name!r} means two different things in the functions it is made of"
                )
            continue
        seen[name] = value
        # Triton takes a global number only as a constexpr, or annotated as one.
        annotation = str(function.__globals__.get("__annotations__", {}).get(name, ""))
        _carry_value(name, around[name], "constexpr" in annotation, function.__name__, parts, seen)
    parts.append("\n".join([decorator, *lines[node.lineno - 1 :]]))


def _carry_value(
    name: str, value: Any, constant: bool, reader: str, parts: list[str], seen: dict[str, Any]
) -> None:
    """Append what makes `name` mean `value` in the new file."""
    kind = type(value).__name__
    inner = _bare(value)
    literal = _literal(value.value if kind == "constexpr" else value)
    if isinstance(value, ModuleType):
        root = value.__name__.partition(".")[0]
        if root != "triton" and root not in sys.stdlib_module_names:
            raise ValueError(
                f"kernel: {reader!r} reads the module {value.__name__!r}, which is not where it is compiled; "
                "import the helper itself"
            )
        parts.append(f"import {value.__name__} as {name}")
    elif literal is not None:
        parts.append(f"{name} = {f'tl.constexpr({literal})' if constant or kind == 'constexpr' else literal}")
    elif str(getattr(inner, "__module__", "")).startswith("triton."):  # of Triton's library
        parts.append(f"from {inner.__module__} import {inner.__name__} as {name}")
    elif isinstance(inner, FunctionType) and inner is not value:
        decorator = "@triton.constexpr_function" if kind == "ConstexprFunction" else "@triton.jit"
        if name == inner.__name__ or inner.__name__ not in seen:
            seen[inner.__name__] = inner
            _carry(inner, decorator, parts, seen)
        elif seen[inner.__name__] is not inner:
            raise ValueError(f"kernel: two different functions are called {inner.__name__!r}")
        if name != inner.__name__:
            parts.append(f"{name} = {inner.__name__}")
    elif not (hasattr(builtins, name) and value is getattr(builtins, name)):
        raise ValueError(
            f"kernel: {reader!r} reads {name!r}, a {kind}, which cannot be taken along; expected a number, "
            "a tl.constexpr, a @triton.jit function or something of Triton"
        )


def _literal(value: Any) -> str | None:
    """Python source for a constant; None if it is something else."""
    if type(value).__name__ == "dtype" and type(value).__module__.startswith("triton."):
        return f"next(v for v in vars(tl).values() if isinstance(v, tl.dtype) and str(v) == {str(value)!r})"
    if isinstance(value, float) and not math.isfinite(value):
        return f"float({str(value)!r})"
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    if isinstance(value, tuple):
        items = [_literal(item) for item in value]
        return None if None in items else "(" + "".join(f"{item}, " for item in items) + ")"
    return None


def _reads(node: ast.FunctionDef) -> set[str]:
    """Names that the function reads from outside: not its arguments, its own variables or annotations."""
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    defaults = [*node.args.defaults, *(default for default in node.args.kw_defaults if default is not None)]
    own = {argument.arg for argument in arguments}
    read: set[str] = set()
    for part in [*node.body, *defaults]:
        for inner in ast.walk(part):
            if isinstance(inner, ast.AnnAssign):
                inner.annotation = ast.Constant(None)  # walked after this: nothing left to read in it
            if isinstance(inner, ast.Name):
                (read if isinstance(inner.ctx, ast.Load) else own).add(inner.id)
    return read - own
