"""One small training loop that can be stopped and taken up again to the last bit.

Device, mixed precision, compilation, accumulation, clipping, schedule, checkpoint and resume. What is
not here (several GPUs, sharding) is `accelerate`'s business.
"""

from __future__ import annotations

import contextlib
import random
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor, nn

from icml26.lab.checkpoint import load, save
from icml26.lab.progress import bar as progress_bar
from icml26.lab.seed import seed_all

__all__ = ["History", "fit"]

Optimizer = torch.optim.Optimizer


@dataclass(frozen=True)
class History:
    """What a training run did.

    losses : mean loss of each step, from the first step ever, over all the resumed parts.
    seconds : time spent in steps, over all the resumed parts, without the time in between.
    steps : optimizer steps done. resumed_from : the step this call began at (0 when fresh).
    skipped : steps at which fp16 gradients overflowed, so that the weights stayed (amp only).
    peak_bytes : most GPU memory that tensors took during this call; 0 on a CPU.
    """

    losses: Float64[np.ndarray, " steps"]
    seconds: float
    steps: int
    resumed_from: int
    skipped: int
    peak_bytes: int

    @property
    def seconds_per_step(self) -> float:
        """Mean seconds of a step; NaN when there was none."""
        return self.seconds / self.steps if self.steps else float("nan")


def fit(
    model: nn.Module,
    loss: Callable[[Any, Any], Tensor],
    batches: Callable[[int], Any] | Iterable[Any],
    *,
    optimizer: Optimizer | Callable[[Iterable[nn.Parameter]], Optimizer],
    steps: int,
    schedule: Callable[[int], float] | None = None,
    device: torch.device | str | None = None,
    amp: bool = False,
    compile: bool = False,
    accumulate: int = 1,
    clip: float | None = None,
    checkpoint: Path | str | None = None,
    every: int = 500,
    seed: int,
    desc: str = "training",
) -> History:
    """Train `model` in place until it has made `steps` optimizer steps.

    Parameters
    ----------
    model : moved to `device` and put into training mode; left there.
    loss : `loss(model, batch)` gives one scalar tensor, the mean over the batch. (With `compile` the model
        it gets is the compiled one.)
    batches : `batches(i)` gives the i-th micro-batch, i = 0, 1, …, the surest way to resume exactly; or an
        iterable such as a DataLoader, started again at its end (an iterator is only read once). Tensors in
        tuples, lists and dicts are moved to `device`.
    optimizer : an optimizer over (some of) the model's parameters, or a function that makes one from them.
    steps : optimizer steps in all, those of earlier calls with the same checkpoint included, so that
        training on is a call with a larger number.
    schedule : factor of each group's learning rate at step 0, 1, …; a pure function, so it needs no state.
    device : default: where the model's parameters are.
    amp : fp16 autocast with a gradient scaler, on CUDA; elsewhere everything stays as it is.
    compile : `torch.compile` the model; its first step can take minutes.
    accumulate : micro-batches per step; the step's gradient is the mean of theirs, so k equal micro-batches
        of b are one batch of k b.
    clip : largest 2-norm of the whole gradient.
    checkpoint : one safetensors file, without pickle, replaced atomically every `every` steps and at the end.
        If it exists, training goes on from it: parameters, buffers, optimizer, scaler, position in the
        batches, and the states of torch's, CUDA's, numpy's and Python's generators come back.
    seed : seeds those generators when training starts afresh.

    On a CPU an interrupted and resumed run equals an uninterrupted one bit for bit, if `batches` depends on
    nothing but its index and those generators. On Ctrl-C the running step is finished, the checkpoint
    written, and KeyboardInterrupt raised; a second Ctrl-C does not wait, and the file stays as last written.

    Raises ValueError (arguments; an optimizer over other parameters; a schedule that is not finite; a
    checkpoint of another run; batches that end early), TypeError (a loss that is no scalar tensor; a count
    that is no integer), FloatingPointError (loss or gradient is NaN or infinite: names the step, the model
    keeps the weights from before it; under amp the scaler skips a step with such a gradient).
    """
    for name, number in (("steps", steps), ("accumulate", accumulate), ("every", every)):
        if isinstance(number, bool) or not isinstance(number, int | np.integer):
            raise TypeError(f"{name}: got {number!r}, expected an integer >= 1")
        if number < 1:
            raise ValueError(f"{name}: got {number!r}, expected an integer >= 1")
    if clip is not None and not clip > 0:
        raise ValueError(f"clip: got {clip!r}, expected a number > 0 or None")
    seed_all(seed)  # before a resumed run too: it also chooses torch's deterministic algorithms
    place = _place(model, device)
    model.to(place).train()
    maker = optimizer if isinstance(optimizer, Optimizer) else optimizer(model.parameters())
    own = {id(parameter) for parameter in model.parameters()}
    if any(id(parameter) not in own for group in maker.param_groups for parameter in group["params"]):
        raise ValueError("optimizer: got parameters that are not the model's, expected the model's only")
    path = None if checkpoint is None else Path(checkpoint)
    run = _Run(model, maker, _Feed(batches), amp and place.type == "cuda", seed, accumulate)
    if path is not None and path.exists():
        run.restore(path, place)
    begin = run.step
    if place.type == "cuda":
        torch.cuda.reset_peak_memory_stats(place)
    forward = torch.compile(model) if compile else model
    with progress_bar(desc, steps, begin, "step") as bar, _interrupts() as interrupted:
        while run.step < steps:
            run.advance(forward, loss, place, schedule, clip)
            bar.update(1)
            if run.step % 10 == 0:
                bar.set_postfix(loss=f"{run.losses[-1]:.4g}", refresh=False)
            stop = interrupted.is_set()
            if path is not None and (stop or run.step % every == 0 or run.step == steps):
                run.save(path)
            if stop:
                raise KeyboardInterrupt(f"training stopped after step {run.step} of {steps}")
    peak = torch.cuda.max_memory_allocated(place) if place.type == "cuda" else 0
    return History(
        np.array(run.losses, dtype=np.float64), run.seconds, run.step, min(begin, run.step), run.skipped, peak
    )


class _Run:
    """The state of a run: everything that a checkpoint must hold."""

    def __init__(
        self, model: nn.Module, optimizer: Optimizer, feed: _Feed, amp: bool, seed: int, accumulate: int
    ) -> None:
        self.model, self.optimizer, self.feed = model, optimizer, feed
        self.amp, self.seed, self.accumulate = amp, seed, accumulate
        self.scaler = torch.amp.GradScaler("cuda", enabled=amp)
        for group in optimizer.param_groups:  # torch's own name for it, so a second fit() finds it too
            group.setdefault("initial_lr", float(group["lr"]))
        self.losses: list[float] = []
        self.step, self.skipped, self.seconds = 0, 0, 0.0

    def advance(
        self,
        forward: Any,
        loss: Callable[[Any, Any], Tensor],
        place: torch.device,
        schedule: Callable[[int], float] | None,
        clip: float | None,
    ) -> None:
        """One optimizer step over `accumulate` micro-batches."""
        began = time.perf_counter()
        if schedule is not None:
            factor = float(schedule(self.step))
            if not np.isfinite(factor):
                raise ValueError(f"schedule: got {factor} for step {self.step}, expected a finite factor")
            for group in self.optimizer.param_groups:
                group["lr"] = group["initial_lr"] * factor
        self.optimizer.zero_grad(set_to_none=True)
        total = torch.zeros((), dtype=torch.float64 if place.type == "cpu" else torch.float32, device=place)
        for _ in range(self.accumulate):
            batch = _to(self.feed.next(), place)
            with torch.autocast("cuda", dtype=torch.float16, enabled=self.amp):
                value = loss(forward, batch)
            if not isinstance(value, Tensor) or value.numel() != 1:
                shape = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
                raise TypeError(f"loss: returned {shape}, expected a scalar tensor")
            self.scaler.scale(value.reshape(()) / self.accumulate).backward()  # type: ignore[no-untyped-call]
            total += value.detach().reshape(()) / self.accumulate
        mean = total.item()  # the one point per step where the host waits for the device
        if not np.isfinite(mean):
            raise FloatingPointError(
                f"the loss is {mean} at step {self.step}; the weights are those before it"
            )
        if clip is not None:
            self._clip(clip)
        elif not self.amp:
            self._require_finite_gradients()
        scale = self.scaler.get_scale()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.skipped += self.scaler.get_scale() < scale
        self.losses.append(mean)
        self.step += 1
        self.seconds += time.perf_counter() - began

    def _clip(self, clip: float) -> None:
        self.scaler.unscale_(self.optimizer)
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        norm = nn.utils.clip_grad_norm_(parameters, clip)
        # Under amp the scaler skips such a step by itself and lowers its scale.
        if not self.amp and not bool(torch.isfinite(norm)):
            raise FloatingPointError(
                f"the gradient's norm is {norm.item()} at step {self.step}; the weights are those before it"
            )

    def _require_finite_gradients(self) -> None:
        # Value by value: the norm of large finite gradients can overflow.
        gradients = [p.grad for group in self.optimizer.param_groups for p in group["params"]]
        values = [g.coalesce().values() if g.is_sparse else g for g in gradients if g is not None]
        if values and not bool(torch.stack([v.isfinite().all() for v in values]).all()):
            raise FloatingPointError(
                f"a gradient is NaN or infinite at step {self.step}; the weights are those before it"
            )

    def save(self, path: Path) -> None:
        save(
            path,
            {
                "run": self._identity(),
                "model": dict(self.model.state_dict()),
                "optimizer": self.optimizer.state_dict(),
                "scaler": self.scaler.state_dict(),
                "random": _random_states(),
                "feed": self.feed.state(),
                "losses": torch.tensor(self.losses, dtype=torch.float64),
                "step": self.step,
                "skipped": int(self.skipped),
                "seconds": self.seconds,
            },
        )

    def restore(self, path: Path, place: torch.device) -> None:
        state = load(path)
        found, expected = state["run"], self._identity()
        for name, value in expected.items():
            if found.get(name) != value:
                raise ValueError(
                    f"checkpoint: {path} is of another run: its {name} is {found.get(name)!r}, "
                    f"expected {value!r}"
                )
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])
        self.losses = state["losses"].tolist()
        self.step, self.skipped, self.seconds = state["step"], state["skipped"], state["seconds"]
        self.feed.restore(state["feed"])
        _set_random_states(state["random"], place)  # last: finding the place in the batches draws numbers

    def _identity(self) -> dict[str, Any]:
        """What must agree between a checkpoint and the run that takes it up."""
        shapes = {name: list(value.shape) for name, value in self.model.state_dict().items()}
        return {
            "seed": self.seed,
            "accumulate": self.accumulate,
            "amp": self.amp,
            "optimizer": type(self.optimizer).__name__,
            "parameters": shapes,
            "groups": [len(group["params"]) for group in self.optimizer.param_groups],
        }


class _Feed:
    """Micro-batches by index or from an iterable, with a position that can be found again."""

    def __init__(self, batches: Callable[[int], Any] | Iterable[Any]) -> None:
        if not callable(batches) and not isinstance(batches, Iterable):
            raise TypeError(f"batches: got {type(batches).__name__}, expected a function or an iterable")
        self.batches = batches
        self.position = 0  # micro-batches taken in all
        self.within = 0  # and since the iterable was started
        self.iterator: Iterator[Any] | None = None
        self.epoch: dict[str, Any] | None = None  # generators' states at that start: they fix a shuffle

    def next(self) -> Any:
        if callable(self.batches):
            batch = self.batches(self.position)
        else:
            try:
                batch = next(self._iterator())
            except StopIteration:
                once = iter(self.batches) is self.batches
                if once or self.within == 0:
                    raise ValueError(f"batches: ended after {self.position} micro-batches") from None
                self.iterator = None
                return self.next()
        self.position += 1
        self.within += 1
        return batch

    def _iterator(self) -> Iterator[Any]:
        if self.iterator is None:
            self.epoch, self.within = _random_states(), 0
            self.iterator = iter(self.batches)  # type: ignore[arg-type]
        return self.iterator

    def state(self) -> dict[str, Any]:
        return {"position": self.position, "within": self.within, "epoch": self.epoch}

    def restore(self, state: dict[str, Any]) -> None:
        self.position = state["position"]
        if callable(self.batches) or state["epoch"] is None:
            return
        _set_random_states(state["epoch"], torch.device("cpu"))
        iterator = self._iterator()
        for _ in range(state["within"]):
            if next(iterator, self) is self:
                raise ValueError(
                    f"batches: ended before the checkpoint's place, {state['within']} in this pass"
                )
        self.within = state["within"]


def _place(model: nn.Module, device: torch.device | str | None) -> torch.device:
    if device is not None:
        return torch.device(device)
    return next((parameter.device for parameter in model.parameters()), torch.device("cpu"))


def _to(batch: Any, place: torch.device) -> Any:
    if isinstance(batch, Tensor):
        return batch.to(place, non_blocking=True)
    if isinstance(batch, Mapping):
        return {key: _to(value, place) for key, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(_to(value, place) for value in batch))
    if isinstance(batch, list | tuple):
        return type(batch)(_to(value, place) for value in batch)
    return batch


def _random_states() -> dict[str, Any]:
    """The states of every global generator, as tensors and plain data."""
    name, keys, *rest = np.random.get_state(legacy=True)  # noqa: NPY002
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "numpy": [name, torch.from_numpy(np.asarray(keys).astype(np.int64)), *rest],
        "python": random.getstate(),
    }


def _set_random_states(states: dict[str, Any], place: torch.device) -> None:
    torch.set_rng_state(states["torch"])
    if place.type == "cuda" and len(states["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(states["cuda"])
    name, keys, *rest = states["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), *rest))  # noqa: NPY002
    random.setstate(states["python"])


@contextlib.contextmanager
def _interrupts() -> Iterator[threading.Event]:
    """Turn the first Ctrl-C into a flag that is read between two steps; the second interrupts at once."""
    flag = threading.Event()
    if threading.current_thread() is not threading.main_thread():  # only that one may set handlers
        yield flag
        return
    before = signal.getsignal(signal.SIGINT)

    def handle(number: int, frame: Any) -> None:
        if flag.is_set():
            raise KeyboardInterrupt
        flag.set()

    signal.signal(signal.SIGINT, handle)
    try:
        yield flag
    finally:
        signal.signal(signal.SIGINT, before)
