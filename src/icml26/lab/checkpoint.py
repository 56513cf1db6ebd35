"""Nested state in one safetensors file: tensors as tensors, the rest as JSON, and no pickle.

A state is built of dicts, lists, tuples, tensors, numbers, texts, booleans and None. Its tensors are
stored under numbers; the tree that holds them is the file's metadata.
"""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

__all__ = ["load", "save"]

_FORMAT = "icml26 checkpoint 1"


def save(path: Path, state: dict[str, Any]) -> None:
    """Write `state` to `path` atomically: a reader sees the old file or the whole new one.

    Raises TypeError, with the place in the tree, for anything that JSON and tensors cannot hold.
    """
    from safetensors.torch import save_file

    tensors: dict[str, Tensor] = {}
    tree = _encode(state, "state", tensors)
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        save_file(tensors, half, metadata={"format": _FORMAT, "tree": json.dumps(tree)})
        with half.open("r+b") as handle:
            os.fsync(handle.fileno())  # the rename must not overtake the data
        os.replace(half, path)
    finally:
        half.unlink(missing_ok=True)


def load(path: Path) -> dict[str, Any]:
    """The state that `save` wrote, tensors on the CPU. ValueError if the file is something else."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != _FORMAT:
                raise ValueError(f"checkpoint: {path} was not written by lab.train")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except SafetensorError as error:
        raise ValueError(f"checkpoint: {path} is damaged or no safetensors file ({error})") from error
    state = _decode(json.loads(metadata["tree"]), tensors)
    assert isinstance(state, dict)
    return state


def _encode(value: Any, where: str, tensors: dict[str, Tensor]) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Tensor):
        name = str(len(tensors))
        # A copy, since tied weights share memory and the format refuses tensors that do.
        tensors[name] = value.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
        return {"tensor": name}
    if isinstance(value, list):
        return [_encode(item, f"{where}[{i}]", tensors) for i, item in enumerate(value)]
    if isinstance(value, tuple):
        return {"tuple": [_encode(item, f"{where}[{i}]", tensors) for i, item in enumerate(value)]}
    if isinstance(value, dict) and all(isinstance(key, str | int) for key in value):
        # As pairs, since JSON would turn the optimizer's integer keys into texts.
        return {"dict": [[key, _encode(item, f"{where}.{key}", tensors)] for key, item in value.items()]}
    raise TypeError(f"checkpoint: {where} is {type(value).__name__}, which needs pickle; it cannot be stored")


def _decode(tree: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(tree, list):
        return [_decode(item, tensors) for item in tree]
    if not isinstance(tree, dict):
        return tree
    ((kind, content),) = tree.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "tuple":
        return tuple(_decode(item, tensors) for item in content)
    return {key: _decode(item, tensors) for key, item in content}
