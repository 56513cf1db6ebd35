"""Small kernels for the tests of `lab.kernels`; a module of its own, since Triton reads its source.

It imports torch and numpy on purpose: the compiling environment has neither.
"""

import math

import numpy as np
import torch

from icml26.lab import kernels  # before triton

import triton  # isort: skip
import triton.language as tl  # isort: skip
from triton.language import exp as exponential  # isort: skip

SLOPE = tl.constexpr(0.0)
FLOOR: tl.constexpr = -1.0
PLAIN = 3.0
TABLE = np.arange(4)
HALF = tl.constexpr(tl.float16)


@triton.jit
def relu(x) -> tl.tensor:
    return tl.where(x > SLOPE, x, SLOPE * x)


rectify = relu  # a helper under another name


@triton.jit
def scale_relu_kernel(x_ptr, s_ptr, y_ptr, n, BLOCK: tl.constexpr = 64):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + at, mask=inside)
    s = tl.load(s_ptr)
    tl.store(y_ptr + at, rectify(x * s), mask=inside)


@triton.jit
def scale_relu_backward_kernel(x_ptr, s_ptr, g_ptr, dx_ptr, ds_ptr, n, BLOCK: tl.constexpr = 64):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + at, mask=inside, other=0.0)
    g = tl.load(g_ptr + at, mask=inside, other=0.0)
    s = tl.load(s_ptr)
    g = tl.where(x * s > 0, g, 0.0)
    tl.store(dx_ptr + at, g * s, mask=inside)
    tl.atomic_add(ds_ptr, tl.sum(g * x))


class ScaleRelu(torch.autograd.Function):
    """y = max(s x, 0) with one scalar s."""

    @staticmethod
    def forward(ctx, x, s):
        y = torch.empty_like(x)
        scale_relu_kernel[(triton.cdiv(x.numel(), 64),)](x, s, y, x.numel())
        ctx.save_for_backward(x, s)
        return y

    @staticmethod
    def backward(ctx, g):
        x, s = ctx.saved_tensors
        dx, ds = torch.empty_like(x), torch.zeros_like(s)
        grid = (triton.cdiv(x.numel(), 64),)
        scale_relu_backward_kernel[grid](x, s, g.contiguous(), dx, ds, x.numel())
        return dx, ds


def twin(x, s):
    return torch.relu(x * s)


@triton.jit
def rich_kernel(
    x_ptr: torch.Tensor,
    y_ptr: "µ: any text",
    n: dict[
        str,
        np.ndarray,
    ],
    BLOCK: tl.constexpr,
    KIND: tl.constexpr = HALF,
) -> None:
    """Reads a constant, an annotated constant, a dtype, a module and a renamed function of Triton."""
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    y: torch.Tensor = exponential(tl.maximum(x, FLOOR)) * math.pi
    tl.store(y_ptr + at, y.to(HALF).to(KIND), mask=at < n)


@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, k, stride, M: tl.constexpr, K: tl.constexpr):
    m, j = tl.arange(0, M), tl.arange(0, K)
    total = tl.zeros((M, M), tl.float32)
    for start in range(0, k, K):
        a = tl.load(a_ptr + m[:, None] * stride + (start + j)[None, :])
        b = tl.load(b_ptr + (start + j)[:, None] * stride + m[None, :])
        total += tl.dot(a, b)
    tl.store(c_ptr + m[:, None] * M + m[None, :], total)


@triton.jit
def shape_error_kernel(x_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    tl.store(x_ptr + tl.arange(0, 2 * BLOCK), x)


@triton.jit
def unknown_name_kernel(x_ptr):
    tl.store(x_ptr, missing_value)


@triton.jit
def plain_global_kernel(x_ptr):
    tl.store(x_ptr, PLAIN)


@triton.jit
def reads_torch_kernel(x_ptr):
    tl.store(x_ptr, torch.pi)


@triton.jit
def reads_table_kernel(x_ptr):
    tl.store(x_ptr, TABLE)


tuned_kernel = triton.autotune(configs=[triton.Config({"BLOCK": 64})], key=["n"])(scale_relu_kernel)

assert kernels.interpreting() or torch.cuda.is_available()
