"""The tested code itself, shown beside the equations."""

import ast
import inspect
import re
from typing import Any


def show_source(*objects: object, doc: bool = True) -> None:
    """Display the source of functions, classes or modules as one Markdown code fence.

    Args:
        objects: what to show, in this order. Decorated functions are unwrapped.
        doc: False trims each docstring to its first line.

    Raises:
        TypeError: an object has no source of its own (a number, a builtin, an instance).
        ValueError: nothing is given, or a source file cannot be read.
    """
    from IPython.display import display

    from icml26.lab.say import Prose

    display(Prose(_fence(objects, doc)))  # type: ignore[no-untyped-call]


def _fence(objects: tuple[object, ...], doc: bool) -> str:
    if not objects:
        raise ValueError("objects: give at least one function, class or module to show")
    code = "\n\n\n".join(_source(thing, doc) for thing in objects)
    longest = max((len(run) for run in re.findall("`+", code)), default=0)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks}python\n{code}\n{ticks}"


def _source(thing: Any, doc: bool) -> str:
    if isinstance(thing, property):
        thing = thing.fget
    if not inspect.isclass(thing) and not inspect.ismodule(thing):
        if not hasattr(thing, "__code__") and hasattr(thing, "fn"):
            thing = thing.fn  # a Triton kernel keeps its Python function there
        thing = inspect.unwrap(thing)
    try:
        code = _dedented(inspect.getsource(thing)).rstrip()
    except TypeError as error:
        raise TypeError(f"objects must be functions, classes or modules, got {thing!r}") from error
    except OSError as error:
        raise ValueError(f"objects: no source file holds {thing!r}") from error
    return code if doc else _trimmed(code)


def _dedented(code: str) -> str:
    """`code` without its first line's indent; a text with lines further left keeps those as they are."""
    indent = code[: len(code) - len(code.lstrip(" \t"))]
    return "".join(line.removeprefix(indent) for line in code.splitlines(keepends=True))


def _trimmed(code: str) -> str:
    """`code` with each docstring of several lines cut to its first."""
    lines = code.splitlines()
    found: list[ast.stmt] = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            words = first.value if isinstance(first, ast.Expr) else None
            if isinstance(words, ast.Constant) and isinstance(words.value, str):
                found.append(first)
    for node in sorted(found, key=lambda expr: -expr.lineno):  # from below, so that line numbers stay true
        opening = re.match(r"\s*[rRuU]?(\"\"\"|''')", lines[node.lineno - 1])
        if opening is None or node.end_lineno in (None, node.lineno):
            continue
        start, quotes = opening.group(0), opening.group(1)
        here = lines[node.lineno - 1][len(start) :].strip()
        if not here:  # the words start on the line after the quotes
            here = lines[node.lineno].strip()
        lines[node.lineno - 1 : node.end_lineno] = [f"{start}{here.removesuffix(quotes)}{quotes}"]
    return "\n".join(lines)
