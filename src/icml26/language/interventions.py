"""Interventions on a model that leave no trace.

Inside `temporarily(model)` a model may be pruned, quantised, hooked, wrapped in adapters, trained or cast; on
leaving it is what it was, after an exception too. That is cheap: torch shares a weight's memory with the saved
copy until somebody writes to it (copy on write), so weights that are only read are never copied.

`fingerprint` and `no_trace` prove it: they look at every byte of the state, at hooks, flags and structure.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

__all__ = [
    "ModelState",
    "clone_state",
    "fingerprint",
    "freeze",
    "no_trace",
    "own_weights",
    "restore_state",
    "temporarily",
]

M = TypeVar("M", bound=nn.Module)


@contextmanager
def temporarily(model: M, *, weights: bool | Iterable[str] = True) -> Iterator[M]:
    """Undo on leaving whatever is done to `model` inside, exceptions included. Nests.

    Undone are: values of parameters, buffers and gradients, written in place or through `.data`; parameter,
    buffer and gradient objects that were replaced, added or deleted; dtype, device, requires_grad; hooks of
    modules and of parameters; submodules added, removed, replaced, wrapped or re-parametrised; training flags;
    other attributes of modules, with lists, dicts and sets in them to one level; the config. Objects keep
    their identity, so tied weights stay tied and handles and optimisers stay valid.

    Args:
        model: any module.
        weights: True, or which tensors' values to save: names as in `named_parameters` and `named_buffers`, or
            beginnings of such names ("model.layers.3"). False saves none. A tensor that is not saved must not
            be changed: see the error. Only worth it for weights in a mapped file or in shared memory, which
            cannot be copied on write and are copied at once (see `own_weights`).

    Returns:
        A context manager that yields the model.

    Raises:
        RuntimeError: on leaving, a tensor outside `weights` was written to (by its version counter) or lost
            what it was; everything else has been restored then. Writes through `.data` or NumPy leave no mark
            on the counter and are not seen here.
        ValueError: a name in `weights` fits no tensor.

    Not undone: an optimiser's state, random generators, a KV cache, and writes through NumPy views or raw
    pointers that were taken before entering. With `torch.compile` use the uncompiled module.
    """
    state = clone_state(model, weights=weights)
    try:
        yield model
    finally:
        restore_state(model, state)


def clone_state(model: nn.Module, *, weights: bool | Iterable[str] = True) -> ModelState:
    """All of the model's state now, for `restore_state`; weights are copied when they are first written to.

    Args as `temporarily`. Raises ValueError: a name in `weights` fits no tensor.
    """
    _expect_module(model)
    modules = dict(model.named_modules())
    tensors = _named_tensors(modules)
    saved_names = _chosen(tensors, weights)
    return ModelState(
        model=model,
        modules=[_ModuleState.of(module) for module in modules.values()],
        configs=[_ConfigState.of(config) for config in _configs(modules.values())],
        tensors=[_TensorState.of(name, tensor, name in saved_names) for name, tensor in tensors.items()],
    )


def restore_state(model: nn.Module, state: ModelState) -> None:
    """Make the model what it was at `clone_state`; may be done any number of times.

    Raises:
        ValueError: the state is of another model object.
        RuntimeError: as `temporarily` on leaving.
    """
    if state.model is not model:
        raise ValueError("state: was taken from another model object, expected one from clone_state(model)")
    for module in state.modules:
        module.restore()
    for config in state.configs:
        config.restore()
    touched = [tensor.name for tensor in state.tensors if not tensor.restore()]
    if touched:
        shown = ", ".join(touched[:5]) + (f" and {len(touched) - 5} more" if len(touched) > 5 else "")
        raise RuntimeError(f"{shown}: changed, but left out by `weights`, so the values could not be restored")


def freeze(model: M) -> M:
    """The model itself in evaluation mode, no parameter requiring a gradient or holding one."""
    _expect_module(model).requires_grad_(False)
    model.zero_grad(set_to_none=True)
    return model.eval()


def own_weights(model: M) -> M:
    """The model itself, its weights in ordinary memory where they were mapped from a file or shared.

    Such weights cannot be copied on write: every `temporarily` would copy them all. This copies them once. Tied
    weights stay tied; tensors outside the model that share their memory no longer do.
    """
    _expect_module(model)
    moved: dict[int, Tensor] = {}  # by storage: overlapping tensors move together
    for tensor in _named_tensors(dict(model.named_modules())).values():
        storage = tensor.detach().untyped_storage()
        if tensor.is_meta or _lazy(tensor.detach()) is not None:
            continue
        if storage._cdata not in moved:
            moved[storage._cdata] = torch.empty(0, dtype=torch.uint8, device=tensor.device)
            moved[storage._cdata].set_(storage.clone())  # type: ignore[no-untyped-call]
        fresh = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        home = moved[storage._cdata].untyped_storage()
        tensor.data = fresh.set_(home, tensor.storage_offset(), tensor.shape, tensor.stride())
    return model


def fingerprint(model: nn.Module) -> str:
    """sha256 (hex) over everything that `temporarily` restores: equal before and after iff nothing changed.

    Names, classes, training flags and hook counts of all modules; names, ties, dtypes, shapes, bytes,
    requires_grad and gradients of all parameters and buffers; the config. Costs one reading of the weights.
    """
    digest = hashlib.sha256()
    for name, part in _traces(model).items():
        digest.update(f"{name}={part}\n".encode())
    return digest.hexdigest()


@contextmanager
def no_trace(model: M) -> Iterator[M]:
    """For tests: AssertionError on leaving if the block changed the model, naming what it changed."""
    before = _traces(model)
    yield model
    after = _traces(model)
    changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    if changed:
        shown = ", ".join(changed[:8]) + (f" and {len(changed) - 8} more" if len(changed) > 8 else "")
        raise AssertionError(f"the model was changed: {shown}")


@dataclass(frozen=True)
class ModelState:
    """What `clone_state` saved: holds the model and, once they are written to, the old weights."""

    model: nn.Module
    modules: list[_ModuleState]
    configs: list[_ConfigState]
    tensors: list[_TensorState]


@dataclass(frozen=True)
class _ModuleState:
    """A module's attributes and what stood in the containers among them (hooks, children, parameters …)."""

    module: nn.Module
    kind: type
    attributes: dict[str, Any]
    contents: dict[str, Any]

    @staticmethod
    def of(module: nn.Module) -> _ModuleState:
        attributes = dict(vars(module))
        contents: dict[str, Any] = {}
        for name, value in attributes.items():  # copy.copy would take ten times as long
            if isinstance(value, dict):
                contents[name] = dict(value)
            elif isinstance(value, list | set):
                contents[name] = value.copy()
        return _ModuleState(module, type(module), attributes, contents)

    def restore(self) -> None:
        # Straight into __dict__: Module.__setattr__ would sort tensors and modules into its tables. Containers
        # are refilled rather than replaced, since handles of hooks refer to them.
        if type(self.module) is not self.kind:
            self.module.__class__ = self.kind
        own = vars(self.module)
        for name, value in self.contents.items():
            _refill(self.attributes[name], value)
        if list(own) != list(self.attributes) or any(own[k] is not v for k, v in self.attributes.items()):
            own.clear()
            own.update(self.attributes)


def _refill(container: Any, content: Any) -> None:
    if isinstance(container, list):
        container[:] = content
    elif container or content:
        container.clear()
        container.update(content)


@dataclass(frozen=True)
class _ConfigState:
    """A config's attributes, each as the object it was and as a deep copy of what it said."""

    config: Any
    attributes: dict[str, Any]
    said: dict[str, Any]

    @staticmethod
    def of(config: Any) -> _ConfigState:
        return _ConfigState(config, dict(vars(config)), copy.deepcopy(vars(config)))

    def restore(self) -> None:
        own = vars(self.config)
        own.clear()
        for name, value in self.attributes.items():
            # The same object where it still says the same, else the copy, copied again for the next restoring.
            own[name] = value if _same(value, self.said[name]) else copy.deepcopy(self.said[name])


def _same(a: Any, b: Any) -> bool:
    return vars(a) == vars(b) if hasattr(a, "__dict__") and type(a) is type(b) else bool(a == b)


def _configs(modules: Iterable[nn.Module]) -> list[Any]:
    found: dict[int, Any] = {}
    for module in modules:
        for name in ("config", "generation_config"):
            value = vars(module).get(name)
            if value is not None and hasattr(value, "__dict__"):
                found[id(value)] = value
    return list(found.values())


@dataclass(frozen=True)
class _TensorState:
    """One parameter or buffer: the memory it looked at, what stood there, and its flags, hooks and gradient."""

    name: str
    tensor: Tensor
    alias: Tensor  # a detached view of the memory: stays on it when `tensor.data` is set to something else
    values: Tensor | None  # memory shared until written to, or a copy; None: not saved
    version: int
    lazy: bool
    requires_grad: bool
    gradient: _TensorState | None
    hooks: dict[str, Any]

    @staticmethod
    def of(name: str, tensor: Tensor, save: bool) -> _TensorState:
        alias = tensor.detach()
        values = _lazy(alias) if save else None
        lazy = values is not None
        if save and values is None and not alias.is_meta:
            values = alias.clone()
        gradient = None if tensor.grad is None else _TensorState.of(f"{name}.grad", tensor.grad, save=True)
        hooks = {key: copy.copy(getattr(tensor, key, None)) for key in _TENSOR_HOOKS} if tensor.is_leaf else {}
        return _TensorState(name, tensor, alias, values, _version(tensor), lazy, tensor.requires_grad, gradient, hooks)

    def restore(self) -> bool:
        """Whether the tensor is what it was now."""
        tensor = self.tensor
        tensor.grad = None
        version = _version(tensor)
        whole = _layout(tensor) == _layout(self.alias)
        if not whole:
            tensor.data = self.alias
        if tensor.requires_grad != self.requires_grad:
            tensor.requires_grad_(self.requires_grad)
        if self.values is not None:
            same = _shares_memory if self.lazy else torch.equal
            if not same(self.alias, self.values):
                with torch.no_grad():
                    self.alias.copy_(self.values)
        for key, content in self.hooks.items():
            current = getattr(tensor, key, None)
            if current is None and content is None:
                continue
            if current is None or content is None:
                setattr(tensor, key, content)
            else:
                _refill(current, content)
        if self.gradient is not None:
            self.gradient.restore()
            tensor.grad = self.gradient.tensor
        return self.values is not None or tensor.is_meta or (whole and version == self.version)


_TENSOR_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")


def _version(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version  # made in inference mode: not counted


def _layout(tensor: Tensor) -> tuple[Any, ...]:
    if tensor.is_meta:
        return tensor.dtype, tensor.shape
    # The storage object, not its address: asking for the address would count as writing to it.
    place = tensor.detach().untyped_storage()._cdata
    return place, tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset()


def _lazy(tensor: Tensor) -> Tensor | None:
    """A copy that shares memory until either is written to, or None where torch cannot make one."""
    if tensor.is_meta or not hasattr(torch, "_lazy_clone") or not hasattr(torch._C, "_data_address"):
        return None
    try:
        return torch._lazy_clone(tensor)  # type: ignore[no-any-return, attr-defined, unused-ignore]
    except RuntimeError:  # mapped from a file, shared between processes, sparse …
        return None


def _shares_memory(a: Tensor, b: Tensor) -> bool:
    """Whether a tensor and its lazy copy still look at the same bytes: nobody has written to either."""
    return bool(torch._C._data_address(a) == torch._C._data_address(b))  # type: ignore[attr-defined]


def _named_tensors(modules: dict[str, nn.Module]) -> dict[str, Tensor]:
    """Parameters, buffers and tensors that are plain attributes of modules, each object once, by its first name."""
    found, seen = dict[str, Tensor](), set[int]()
    for prefix, module in modules.items():
        plain = {name: value for name, value in vars(module).items() if isinstance(value, Tensor)}
        for name, tensor in {**module._parameters, **module._buffers, **plain}.items():
            if tensor is not None and id(tensor) not in seen:
                seen.add(id(tensor))
                found[f"{prefix}.{name}" if prefix else name] = tensor
    return found


def _chosen(tensors: dict[str, Tensor], weights: bool | Iterable[str]) -> set[str]:
    if isinstance(weights, bool):
        return set(tensors) if weights else set()
    beginnings = [weights] if isinstance(weights, str) else list(weights)
    chosen: set[str] = set()
    for beginning in beginnings:
        fitting = {name for name in tensors if name == beginning or name.startswith(beginning + ".")}
        if not fitting:
            raise ValueError(
                f"weights: {beginning!r} fits no tensor, expected names such as {next(iter(tensors), '')!r}"
            )
        chosen |= fitting
    return chosen


def _traces(model: nn.Module) -> dict[str, str]:
    """What to compare, by what it is called."""
    _expect_module(model)
    found, first = dict[str, str](), dict[int, str]()
    for prefix, module in model.named_modules(remove_duplicate=False):
        where = prefix or "model"
        own = vars(module)
        hooks = {k: len(v) for k, v in own.items() if k.endswith("_hooks") and isinstance(v, dict) and v}
        replaced = [k for k, v in own.items() if callable(v) and not isinstance(v, type) and k in dir(type(module))]
        found[f"{where}: class"] = type(module).__qualname__
        found[f"{where}: training"] = str(module.training)
        found[f"{where}: hooks"] = str(hooks)
        found[f"{where}: methods replaced"] = str(replaced)
        found[f"{where}: children"] = str(list(module._modules))
        for name, tensor in [*module._parameters.items(), *module._buffers.items()]:
            label = f"{prefix}.{name}" if prefix else name
            if tensor is None:
                found[label] = "None"
            elif id(tensor) in first:
                found[label] = f"the same as {first[id(tensor)]}"
            else:
                first[id(tensor)] = label
                found[label] = _digest(tensor)
                found[f"{label}: hooks"] = str([len(getattr(tensor, key, None) or ()) for key in _TENSOR_HOOKS])
                found[f"{label}.grad"] = "None" if tensor.grad is None else _digest(tensor.grad)
    for number, config in enumerate(_configs(model.modules())):
        say = getattr(config, "to_dict", lambda config=config: vars(config))
        found[f"{type(config).__name__} {number}"] = json.dumps(say(), sort_keys=True, default=str)
    return found


def _digest(tensor: Tensor) -> str:
    facts = f"{tensor.dtype} {tuple(tensor.shape)} {tensor.device} {tensor.requires_grad} {type(tensor).__name__}"
    if tensor.is_meta or not tensor.numel():
        return facts
    # A copy: NumPy's view of the tensor itself would count as writing to it.
    plain = tensor.detach().to("cpu", copy=True).contiguous().reshape(-1).view(torch.uint8)
    return f"{facts} {hashlib.sha256(plain.numpy().data).hexdigest()}"


def _expect_module(model: Any) -> nn.Module:
    if not isinstance(model, nn.Module):
        raise TypeError(f"model: got {type(model).__name__}, expected a torch.nn.Module")
    return model
