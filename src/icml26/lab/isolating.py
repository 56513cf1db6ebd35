"""Take a Triton kernel out of its module: its source, its helpers' and the constants they read.

The module around it may import torch or what else is not where the kernel gets compiled.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import math
import re
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
    return "import triton\nimport triton.language as tl\n\n\n" + "\n\n\n".join(parts) + "\n"


def _bare(value: Any) -> Any:
    """Without the layers that jit, autotune, heuristics and constexpr_function put around a function."""
    inner = value
    while not isinstance(inner, FunctionType) and hasattr(inner, "fn"):
        inner = inner.fn
    return inner


def _carry(function: FunctionType, decorator: str, parts: list[str], seen: dict[str, Any]) -> None:
    """Append what `function` reads, then itself. `seen`: what each name of the new file stands for."""
    source = _without_annotations(textwrap.dedent(inspect.getsource(function)))
    node = _definition(source)
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
    parts.append("\n".join([decorator, *source.splitlines()[node.lineno - 1 :]]))


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


def _definition(source: str) -> ast.FunctionDef:
    (node,) = ast.parse(source).body
    assert isinstance(node, ast.FunctionDef)
    return node


def _without_annotations(source: str) -> str:
    """Blank every annotation but `constexpr`: Triton evaluates them, and one may name a torch type."""
    node = _definition(source)
    spans = [(name, note) for inner in ast.walk(node) for name, note in _annotated(inner)]
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    text = bytearray(source.encode())  # the parser counts columns in bytes
    for begin, note in spans:
        assert note.end_lineno is not None
        assert note.end_col_offset is not None
        if "constexpr" not in ast.unparse(note):
            first = starts[begin[0] - 1] + begin[1]
            last = starts[note.end_lineno - 1] + note.end_col_offset
            if note is node.returns:
                first = text.rindex(b"->", 0, first)
            text[first:last] = re.sub(rb"[^\n]", b" ", text[first:last])
    return text.decode()


def _annotated(node: ast.AST) -> list[tuple[tuple[int, int], ast.expr]]:
    """The annotation in a node, and the place behind the name that it belongs to."""
    if isinstance(node, ast.arg) and node.annotation is not None:
        return [((node.lineno, node.col_offset + len(node.arg.encode())), node.annotation)]
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        assert node.target.end_lineno is not None
        assert node.target.end_col_offset is not None
        return [((node.target.end_lineno, node.target.end_col_offset), node.annotation)]
    if isinstance(node, ast.FunctionDef) and node.returns is not None:
        return [((node.returns.lineno, node.returns.col_offset), node.returns)]
    return []


def _reads(node: ast.FunctionDef) -> set[str]:
    """Names that the function reads from outside: neither its arguments nor its own variables."""
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    own = {argument.arg for argument in arguments}
    read: set[str] = set()
    for part in [*node.body, node.args]:
        for inner in ast.walk(part):
            if isinstance(inner, ast.Name):
                (read if isinstance(inner.ctx, ast.Load) else own).add(inner.id)
    return read - own
