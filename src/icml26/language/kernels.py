"""KL divergence between the rows of two logit matrices: masked, at a temperature, without probabilities in memory.

A vocabulary of 151,936 tokens makes the textbook form expensive: two softmaxes, their logarithms, their
difference and its product with the probabilities are matrices of the size of the logits, all alive at once.
`masked_kl` keeps the two logit matrices and a handful of numbers per row, and makes the gradient, which has
to be a matrix, in the backward pass:

- on a GPU a Triton kernel reads both rows once, block by block (`triton_kl`). So far it has been interpreted, and
  compiled for an A100 and a T4, but not yet run on a GPU;
- elsewhere the same is done in plain torch, a few rows at a time;
- under `torch.compile`, and with `backend="plain"`, it is the definition in nine lines of torch.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

__all__ = ["masked_kl"]

# Numbers that one matrix of the chunked form holds: 1 MB in fp32, so that a chunk stays in a CPU's cache.
_CHUNK = 1 << 18


def masked_kl(
    student: Float[Tensor, "*rows vocab"],
    teacher: Float[Tensor, "*rows vocab"],
    mask: Shaped[Tensor, "*rows"] | None = None,
    *,
    temperature: float | int = 1.0,
    reduction: Literal["mean", "sum", "none"] = "mean",
    direction: Literal["forward", "reverse", "both"] = "forward",
    scale_t2: bool = False,
    columns: Bool[Tensor, "vocab"] | None = None,
    backend: Literal["auto", "plain", "chunked", "triton"] = "auto",
) -> Float[Tensor, "*rows"] | Float[Tensor, ""]:
    """KL(p || q) of each row, p = softmax(teacher / T) and q = softmax(student / T), weighted by a mask.

    Hinton, Vinyals and Dean, "Distilling the knowledge in a neural network", 2015. Natural logarithms: nats.

    Args:
        student, teacher: logits of the same shape on one device, each fp16, bf16, fp32 or fp64. Slices such as
            `logits[:, :-1]` are read where they lie.
        mask: None, or a weight >= 0 per row: booleans, integers or floats (a window's weights, say). A row of
            weight 0 is not read at all: whatever it holds, NaN too, has no influence and no gradient.
        temperature: T > 0, the same for both.
        reduction: "mean" is sum_i w_i KL_i / sum_i w_i over the mask's weights w, and 0 if they are all 0;
            "sum" is its numerator, "none" its terms w_i KL_i, in the shape of the rows.
        direction: "forward" is KL(teacher || student), "reverse" KL(student || teacher), "both" their sum.
        scale_t2: multiply by T**2, which keeps the size of the gradient when T changes.
        columns: None, or which columns are tokens at all. The others count as logits of -inf on both sides
            (vocabularies are padded: Qwen2.5's head has 151,936 rows for 151,665 tokens).
        backend: "auto" is "triton" on CUDA (except for float64), "plain" under `torch.compile`, else "chunked".

    Returns:
        float64 if an argument is, else float32, whatever the logits' precision; sums are made in that type. The
        rounding error of a row's KL is about 1e-6 times the spread of its logits, so values below that are noise
        (the gradient is not affected). Gradients reach student, teacher and a floating mask; second derivatives are
        made by "plain" and "chunked" only, "triton" refuses to.

    The Triton kernels are tested in Triton's interpreter; nobody has run them on a GPU yet.

    A logit of -inf is a probability of zero and 0 log 0 = 0. Where the divergence is KL(p || q), a column with
    p > 0 = q makes it +inf, however small p is; the gradient with respect to q's logits is q - p as ever, with
    respect to p's it is not finite. A row without a finite logit, or with NaN or +inf, gives NaN.

    Raises:
        ValueError: shapes or devices that differ, no rows' last axis, a negative or non-finite mask or columns
            that are all False (both looked at on the CPU only, where looking does not stop the queue),
            temperature not positive and finite, an unknown option.
        ImportError: backend "triton" without Triton.
    """
    _validate(student, teacher, mask, temperature, reduction, direction, columns)
    chosen = _choose(backend, student, teacher)
    if direction == "reverse":
        student, teacher = teacher, student
    wide = torch.float64 if torch.float64 in (student.dtype, teacher.dtype) else torch.float32
    weight = None if mask is None else mask.to(wide)
    rows: Tensor = _ROWS[chosen](student, teacher, weight, columns, float(temperature), direction == "both")
    if scale_t2:
        rows = rows * float(temperature) ** 2
    if weight is None:
        if reduction == "none":
            return rows
        return rows.sum() / max(1, rows.numel()) if reduction == "mean" else rows.sum()
    rows = rows * weight
    if reduction == "none":
        return rows
    if reduction == "sum":
        return rows.sum()
    total = weight.sum()
    return rows.sum() / torch.where(total > 0, total, torch.ones_like(total))


def _validate(
    student: Tensor,
    teacher: Tensor,
    mask: Tensor | None,
    temperature: float | int,
    reduction: str,
    direction: str,
    columns: Tensor | None,
) -> None:
    for name, tensor in (("student", student), ("teacher", teacher)):
        if not tensor.is_floating_point():
            raise ValueError(f"{name}: got dtype {tensor.dtype}, expected floating-point logits")
    if student.dim() < 1 or student.shape[-1] < 1:
        raise ValueError(f"student: got shape {tuple(student.shape)}, expected (..., vocab) with vocab >= 1")
    if teacher.shape != student.shape:
        raise ValueError(f"teacher: got shape {tuple(teacher.shape)}, expected the student's {tuple(student.shape)}")
    if mask is not None and mask.shape != student.shape[:-1]:
        raise ValueError(
            f"mask: got shape {tuple(mask.shape)}, expected one weight per row {tuple(student.shape[:-1])}"
        )
    if mask is not None and mask.is_complex():
        raise ValueError(f"mask: got dtype {mask.dtype}, expected booleans, integers or floats")
    if columns is not None and (columns.dtype != torch.bool or columns.shape != student.shape[-1:]):
        raise ValueError(
            f"columns: got {columns.dtype} of shape {tuple(columns.shape)}, expected {student.shape[-1]} booleans"
        )
    for name, other in (("teacher", teacher), ("mask", mask), ("columns", columns)):
        if other is not None and other.device != student.device:
            raise ValueError(f"{name}: is on {other.device}, expected the student's {student.device}")
    if not (math.isfinite(temperature) and temperature > 0):
        raise ValueError(f"temperature: got {temperature}, expected a finite number > 0")
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"reduction: got {reduction!r}, expected 'mean', 'sum' or 'none'")
    if direction not in ("forward", "reverse", "both"):
        raise ValueError(f"direction: got {direction!r}, expected 'forward', 'reverse' or 'both'")
    if torch.compiler.is_compiling() or student.device.type != "cpu":
        return
    if mask is not None and not bool(((mask >= 0) & mask.isfinite()).all()):
        raise ValueError("mask: has negative or non-finite weights, expected weights >= 0")
    if columns is not None and not bool(columns.any()):
        raise ValueError("columns: are all False, expected at least one column that counts")


def _choose(backend: str, student: Tensor, teacher: Tensor) -> str:
    if backend == "auto":
        if torch.compiler.is_compiling():
            return "plain"
        narrow = torch.float64 not in (student.dtype, teacher.dtype)
        there = student.is_cuda and narrow and importlib.util.find_spec("triton") is not None
        return "triton" if there else "chunked"
    if backend not in _ROWS:
        raise ValueError(f"backend: got {backend!r}, expected 'auto', 'plain', 'chunked' or 'triton'")
    if backend == "triton" and torch.float64 in (student.dtype, teacher.dtype):
        raise ValueError("backend: 'triton' sums in float32, expected 'plain' or 'chunked' for float64 logits")
    return backend


def _plain(
    student: Tensor, teacher: Tensor, weight: Tensor | None, columns: Tensor | None, temperature: float, both: bool
) -> Tensor:
    """The definition, differentiated by autograd. Rows of weight 0 are zeros."""
    wide = torch.float64 if torch.float64 in (student.dtype, teacher.dtype) else torch.float32
    logs = []
    for logits in (student, teacher):
        if weight is not None:
            logits = torch.where((weight > 0)[..., None], logits, torch.zeros_like(logits))
        if columns is not None:
            logits = logits.masked_fill(~columns, -torch.inf)
        logs.append(torch.log_softmax(logits.to(wide) / temperature, dim=-1))
    q, p = logs
    rows = _divergence(p, q) + _divergence(q, p) if both else _divergence(p, q)
    return rows if weight is None else torch.where(weight > 0, rows, torch.zeros_like(rows))


def _divergence(log_p: Tensor, log_q: Tensor) -> Tensor:
    """sum p (log p - log q) with 0 log 0 = 0, and +inf for p > 0 = q also where p is too small for its type."""
    absent = log_p == -torch.inf
    log_p, log_q = log_p.masked_fill(absent, 0.0), log_q.masked_fill(absent, 0.0)
    p = log_p.exp()
    tiny = torch.finfo(p.dtype).tiny
    p = torch.where(log_q == -torch.inf, p.clamp_min(tiny), p).masked_fill(absent, 0.0)
    return (p * (log_p - log_q)).sum(dim=-1)


class _Chunked(torch.autograd.Function):
    """The same a few rows at a time, with the gradient made from the logits again in the backward pass."""

    @staticmethod
    def forward(
        ctx: Any,
        student: Tensor,
        teacher: Tensor,
        weight: Tensor | None,
        columns: Tensor | None,
        temperature: float,
        both: bool,
    ) -> Tensor:
        wide = torch.float64 if torch.float64 in (student.dtype, teacher.dtype) else torch.float32
        rows = student.new_zeros(student.shape[:-1].numel(), dtype=wide)
        chunks = _Chunks(student, teacher, weight, columns, temperature)
        for at in chunks.places:
            log_q, log_p = chunks.logs(at)
            rows[at] = _fast_divergence(log_p, log_q)
            if both:
                rows[at] += _fast_divergence(log_q, log_p)
        ctx.save_for_backward(student, teacher, weight, columns)
        ctx.temperature, ctx.both = temperature, both
        return rows.reshape(student.shape[:-1])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        student, teacher, weight, columns = ctx.saved_tensors
        chunks = _Chunks(student, teacher, weight, columns, ctx.temperature)
        upstream = (gradients[0].reshape(-1) / ctx.temperature)[:, None]
        made: list[Tensor | None] = [
            logits.new_zeros(logits.shape).reshape(-1, logits.shape[-1]) if needed else None
            for logits, needed in zip((student, teacher), ctx.needs_input_grad, strict=False)
        ]
        for at in chunks.places:
            log_q, log_p = chunks.logs(at)
            if made[1] is not None:
                slope = _pull(log_p, log_q)
                if ctx.both:
                    slope += log_p.exp() - log_q.exp()
                made[1][at] = slope.mul_(upstream[at]).to(teacher.dtype)
            if made[0] is not None:
                pull = _pull(log_q, log_p) if ctx.both else None
                slope = log_q.exp_().sub_(log_p.exp_())
                if pull is not None:
                    slope += pull
                made[0][at] = slope.mul_(upstream[at]).to(student.dtype)
        grads = [None if g is None else g.reshape(student.shape) for g in made]
        return grads[0], grads[1], None, None, None, None


def _fast_divergence(log_p: Tensor, log_q: Tensor) -> Tensor:
    """`_divergence` with fewer temporaries where no column is impossible; one that is makes this sum NaN or inf."""
    rows = torch.sub(log_p, log_q).mul_(log_p.exp()).sum(dim=-1)
    return rows if bool(rows.isfinite().all()) else _divergence(log_p, log_q)


def _pull(log_p: Tensor, log_q: Tensor) -> Tensor:
    """The gradient of KL(p || q) with respect to p's scaled logits: p (log p - log q - KL)."""
    ratio = (log_p - log_q).masked_fill_(log_p == -torch.inf, 0.0)
    return ratio.sub_(_fast_divergence(log_p, log_q)[:, None]).mul_(log_p.exp())


class _Chunks:
    """Both logit matrices as log-probabilities, a few of the rows that count at a time."""

    def __init__(
        self, student: Tensor, teacher: Tensor, weight: Tensor | None, columns: Tensor | None, temperature: float
    ) -> None:
        self.wide = torch.float64 if torch.float64 in (student.dtype, teacher.dtype) else torch.float32
        self.matrices, self.columns, self.temperature = (student, teacher), columns, temperature
        self.shape = student.shape[:-1]
        count, size = self.shape.numel(), max(1, _CHUNK // student.shape[-1])
        self.places: Sequence[slice | Tensor]
        if weight is None:
            self.places = [slice(start, min(start + size, count)) for start in range(0, count, size)]
        else:
            chosen = (weight.reshape(-1) > 0).nonzero().squeeze(1)
            self.places = torch.split(chosen, size) if len(chosen) else ()

    def logs(self, at: slice | Tensor) -> tuple[Tensor, Tensor]:
        """Two new tensors (log q, log p), free to be overwritten."""
        found = []
        for logits in self.matrices:
            part = self._rows(logits, at).to(self.wide)
            if self.temperature != 1:
                part = part / self.temperature
            if self.columns is not None:
                part = part.masked_fill(~self.columns, -torch.inf)
            found.append(torch.log_softmax(part, dim=-1))
        return found[0], found[1]

    def _rows(self, logits: Tensor, at: slice | Tensor) -> Tensor:
        if logits.is_contiguous() or not self.shape:
            logits = logits.contiguous()
            return logits.view(-1, logits.shape[-1])[at]
        if isinstance(at, slice):  # reshaping would copy the whole matrix
            at = torch.arange(at.start, at.stop, device=logits.device)
        return logits[torch.unravel_index(at, self.shape)]


def _triton(
    student: Tensor, teacher: Tensor, weight: Tensor | None, columns: Tensor | None, temperature: float, both: bool
) -> Tensor:
    if importlib.util.find_spec("triton") is None:
        raise ImportError("backend: 'triton' needs Triton: pip install triton (Linux with an NVIDIA GPU)")
    from icml26.language.triton_kl import kl_rows

    return kl_rows(student, teacher, weight, columns, temperature, both)


_ROWS: dict[str, Callable[..., Tensor]] = {"plain": _plain, "chunked": _Chunked.apply, "triton": _triton}
