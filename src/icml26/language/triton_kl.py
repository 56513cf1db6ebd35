"""The Triton kernels of `kernels.masked_kl`: one reading of both rows forward, one backward.

Forward, one program per row. Running maxima a, b of the student's and the teacher's logits (x, y) and, with
dx = (x - a) / T and dy = (y - b) / T, the sums

    Zq = sum e^dx,  Zp = sum e^dy,  N = sum e^dy (dy - dx),  M = sum e^dx (dx - dy)

give KL(p || q) = N / Zp - log Zp + log Zq and KL(q || p) = M / Zq - log Zq + log Zp. When a maximum moves, the
sums are carried over to it. Backward, one program per row and block: nothing but these numbers is needed.
"""

from __future__ import annotations

import math
from typing import Any, no_type_check

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from icml26.lab import kernels  # before triton

import triton  # isort: skip
import triton.language as tl  # isort: skip

__all__ = ["BLOCK", "WARPS", "backward_kernel", "forward_kernel", "kl_rows"]

BLOCK, WARPS = 2048, 8
NONE = tl.constexpr(float("-inf"))


@no_type_check
@triton.jit
def forward_kernel(
    x_ptr,
    y_ptr,
    w_ptr,
    valid_ptr,
    out_ptr,
    stats_ptr,  # [rows, 6]: a, log Zq, b, log Zp, KL(p || q), KL(q || p)
    inner,  # row i is at (i // inner) * outer stride + (i % inner) * inner stride
    x_outer,
    x_inner,
    y_outer,
    y_inner,
    vocab,
    inverse_t,
    HAS_WEIGHT: tl.constexpr,
    HAS_VALID: tl.constexpr,
    BOTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    x_row = x_ptr + (row // inner) * x_outer + (row % inner) * x_inner
    y_row = y_ptr + (row // inner) * y_outer + (row % inner) * y_inner
    counts = True
    end = vocab
    if HAS_WEIGHT:
        counts = tl.load(w_ptr + row) > 0
        end = tl.where(counts, vocab, 0)  # a row that does not count is not read
    a = 0.0  # reference points: the maxima so far, 0 while there is none
    b = 0.0
    zq = 0.0
    zp = 0.0
    n = 0.0
    m = 0.0
    hole_q = 0  # columns with p > 0 = q
    hole_p = 0
    for start in range(0, end, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < vocab
        if HAS_VALID:
            inside = inside & (tl.load(valid_ptr + at, mask=inside, other=0) != 0)
        x = tl.load(x_row + at, mask=inside, other=NONE).to(tl.float32)
        y = tl.load(y_row + at, mask=inside, other=NONE).to(tl.float32)
        top_x = tl.max(x, axis=0)
        top_y = tl.max(y, axis=0)
        new_a = tl.where(zq == 0, tl.where(top_x == NONE, 0.0, top_x), tl.maximum(a, top_x))
        new_b = tl.where(zp == 0, tl.where(top_y == NONE, 0.0, top_y), tl.maximum(b, top_y))
        move_a = (a - new_a) * inverse_t  # <= 0 once there is a sum to move
        move_b = (b - new_b) * inverse_t
        grow_q = tl.where(zq == 0, 0.0, tl.exp(tl.minimum(move_a, 0.0)))
        grow_p = tl.where(zp == 0, 0.0, tl.exp(tl.minimum(move_b, 0.0)))
        dx = (x - new_a) * inverse_t
        dy = (y - new_b) * inverse_t
        no_x = dx == NONE
        no_y = dy == NONE
        eq = tl.exp(dx)
        ep = tl.exp(dy)
        neither = no_x | no_y
        gap = tl.where(neither, 0.0, dy - dx)
        hole_q += tl.sum((no_x & ~no_y).to(tl.int32), axis=0)
        n = grow_p * (n + zp * (move_b - move_a)) + tl.sum(ep * gap, axis=0)
        if BOTH:
            hole_p += tl.sum((no_y & ~no_x).to(tl.int32), axis=0)
            m = grow_q * (m + zq * (move_a - move_b)) - tl.sum(eq * gap, axis=0)
        zq = zq * grow_q + tl.sum(eq, axis=0)
        zp = zp * grow_p + tl.sum(ep, axis=0)
        a = new_a
        b = new_b
    log_zq = tl.log(zq)
    log_zp = tl.log(zp)
    kl = n / zp - log_zp + log_zq
    # Below 0 is rounding; -inf is a student without a finite logit, which -inf + inf makes the NaN it should be.
    kl = tl.where((kl < 0) & (kl > NONE), 0.0, kl) + tl.where(hole_q > 0, float("inf"), 0.0)
    back = 0.0
    if BOTH:
        back = m / zq - log_zq + log_zp
        back = tl.where((back < 0) & (back > NONE), 0.0, back) + tl.where(hole_p > 0, float("inf"), 0.0)
    tl.store(out_ptr + row, tl.where(counts, kl + back, 0.0))
    stats = stats_ptr + row * 6
    tl.store(stats, a)
    tl.store(stats + 1, log_zq)
    tl.store(stats + 2, b)
    tl.store(stats + 3, log_zp)
    tl.store(stats + 4, kl)
    tl.store(stats + 5, back)


@no_type_check
@triton.jit
def backward_kernel(
    x_ptr,
    y_ptr,
    w_ptr,
    valid_ptr,
    g_ptr,
    stats_ptr,
    gx_ptr,  # [rows, vocab], contiguous
    gy_ptr,
    inner,
    x_outer,
    x_inner,
    y_outer,
    y_inner,
    vocab,
    inverse_t,
    HAS_WEIGHT: tl.constexpr,
    HAS_VALID: tl.constexpr,
    BOTH: tl.constexpr,
    NEED_X: tl.constexpr,
    NEED_Y: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    within = at < vocab
    counts = True
    end = vocab
    if HAS_WEIGHT:
        counts = tl.load(w_ptr + row) > 0
        end = tl.where(counts, vocab, 0)
    inside = at < end
    if HAS_VALID:
        inside = inside & (tl.load(valid_ptr + at, mask=inside, other=0) != 0)
    x_row = x_ptr + (row // inner) * x_outer + (row % inner) * x_inner
    y_row = y_ptr + (row // inner) * y_outer + (row % inner) * y_inner
    x = tl.load(x_row + at, mask=inside, other=NONE).to(tl.float32)
    y = tl.load(y_row + at, mask=inside, other=NONE).to(tl.float32)
    stats = stats_ptr + row * 6
    log_q = (x - tl.load(stats)) * inverse_t - tl.load(stats + 1)
    log_p = (y - tl.load(stats + 2)) * inverse_t - tl.load(stats + 3)
    q = tl.exp(log_q)
    p = tl.exp(log_p)
    g = tl.load(g_ptr + row) * inverse_t
    if NEED_X:
        slope = q - p
        if BOTH:
            ratio = tl.where(log_q == NONE, 0.0, log_q) - tl.where(log_q == NONE, 0.0, log_p)
            slope += q * (ratio - tl.load(stats + 5))
        gx = tl.where(counts, slope * g, 0.0)
        tl.store(gx_ptr + row * vocab + at, gx.to(gx_ptr.dtype.element_ty), mask=within)
    if NEED_Y:
        ratio = tl.where(log_p == NONE, 0.0, log_p) - tl.where(log_p == NONE, 0.0, log_q)
        slope = p * (ratio - tl.load(stats + 4))
        if BOTH:
            slope += p - q
        gy = tl.where(counts, slope * g, 0.0)
        tl.store(gy_ptr + row * vocab + at, gy.to(gy_ptr.dtype.element_ty), mask=within)


class _Rows(torch.autograd.Function):
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
        x, y = _readable(student), _readable(teacher)
        rows = math.prod(student.shape[:-1])
        weight = None if weight is None else weight.contiguous()
        valid = None if columns is None else columns.contiguous().view(torch.uint8)
        out = torch.empty(student.shape[:-1], dtype=torch.float32, device=student.device)
        stats = torch.empty(rows, 6, dtype=torch.float32, device=student.device)
        if rows:
            forward_kernel[(rows,)](
                x, y, weight if weight is not None else out, valid if valid is not None else out, out, stats,
                *_layout(x, y), x.shape[-1], 1.0 / temperature,
                HAS_WEIGHT=weight is not None, HAS_VALID=valid is not None, BOTH=both, BLOCK=BLOCK, num_warps=WARPS,
            )  # fmt: skip
        ctx.save_for_backward(x, y, weight, valid, stats)
        ctx.temperature, ctx.both, ctx.shape = temperature, both, student.shape
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # create_graph=True; what the kernel writes would count as constant
            raise RuntimeError("backend: 'triton' has no second derivatives, expected 'plain' or 'chunked' for those")
        x, y, weight, valid, stats = ctx.saved_tensors
        need_x, need_y = ctx.needs_input_grad[:2]
        vocab = x.shape[-1]
        gx = torch.empty(ctx.shape, dtype=x.dtype, device=x.device) if need_x else None
        gy = torch.empty(ctx.shape, dtype=y.dtype, device=y.device) if need_y else None
        if len(stats):
            backward_kernel[(len(stats), triton.cdiv(vocab, BLOCK))](
                x, y, weight if weight is not None else stats, valid if valid is not None else stats,
                gradients[0].to(torch.float32).contiguous(), stats,
                gx if gx is not None else stats, gy if gy is not None else stats,
                *_layout(x, y), vocab, 1.0 / ctx.temperature,
                HAS_WEIGHT=weight is not None, HAS_VALID=valid is not None, BOTH=ctx.both,
                NEED_X=need_x, NEED_Y=need_y, BLOCK=BLOCK, num_warps=WARPS,
            )  # fmt: skip
        return gx, gy, None, None, None, None


def kl_rows(
    student: Float[Tensor, "*rows vocab"],
    teacher: Float[Tensor, "*rows vocab"],
    weight: Float[Tensor, "*rows"] | None,
    columns: Bool[Tensor, "vocab"] | None,
    temperature: float,
    both: bool,
) -> Float[Tensor, "*rows"]:
    """The divergence of each row, 0 where the weight is 0; fp32. Arguments as `masked_kl` has checked them.

    Raises:
        ValueError: the tensors are not where the kernels run (a GPU, or the CPU when they are interpreted).
    """
    if student.device.type != kernels.device().type:
        raise ValueError(f"student: is on {student.device}, expected {kernels.device()}, where Triton kernels run here")
    return _Rows.apply(student, teacher, weight, columns, temperature, both)  # type: ignore[no-untyped-call, no-any-return]


def _readable(logits: Tensor) -> Tensor:
    """[outer, inner, vocab] with adjacent columns: a view of the logits where their strides allow it."""
    vocab = logits.shape[-1]
    if logits.dim() <= 3:
        logits = logits.reshape((1,) * (3 - logits.dim()) + logits.shape)  # only ones in front: always a view
    else:
        logits = logits.reshape(-1, logits.shape[-2], vocab)
    return logits if logits.stride(-1) == 1 or vocab == 1 else logits.contiguous()


def _layout(x: Tensor, y: Tensor) -> tuple[int, int, int, int, int]:
    return x.shape[1], x.stride(0), x.stride(1), y.stride(0), y.stride(1)
