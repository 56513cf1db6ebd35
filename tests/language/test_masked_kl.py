"""`masked_kl`: the definition against torch and closed forms, the two streaming forms against the definition."""

import functools
import importlib.util
import math
import subprocess
import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import example, given, settings
from hypothesis import strategies as st

from icml26.lab import kernels
from icml26.language.kernels import masked_kl

TRITON = importlib.util.find_spec("triton") is not None
needs_triton = pytest.mark.skipif(not TRITON, reason="needs triton, which this platform has no build of")
BACKENDS = ["plain", "chunked", pytest.param("triton", marks=needs_triton)]
EXACT = ["plain", "chunked"]
INF = float("inf")
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning:triton")  # numpy on -inf in the interpreter


def logits(*shape, seed=0, scale=3.0, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    return (scale * torch.randn(*shape, generator=generator, dtype=torch.float64)).to(dtype)


def reference(student, teacher, temperature=1.0):
    """Per row by torch's own kl_div in float64."""
    q, p = (F.log_softmax(x.double() / temperature, dim=-1) for x in (student, teacher))
    return F.kl_div(q, p, log_target=True, reduction="none").sum(-1)


def gradient_of(loss, *tensors):
    return torch.autograd.grad(loss, tensors)


SHAPES = [(7, 7), (64, 65), (2, 3, 2500), (5, 1), (4099,)]
# Triton's interpreter takes most of a second for one program of a row: few rows, and still more than one block.
FEW = [(5, 65), (2, 3, 2500), (4099,)]


@pytest.mark.parametrize(
    ("backend", "temperature", "shape"),
    [(b, t, s) for b in EXACT for t in (1.0, 3, 0.5) for s in SHAPES]
    + [pytest.param("triton", 3, s, marks=needs_triton) for s in FEW],
)
def test_is_torchs_kl_div(backend, temperature, shape):
    s, t = logits(*shape), logits(*shape, seed=1)
    kl = masked_kl(s, t, temperature=temperature, reduction="none", backend=backend)
    assert kl.dtype == torch.float32
    assert kl.shape == shape[:-1]
    expected = reference(s, t, temperature)
    assert torch.allclose(kl.double(), expected, rtol=1e-5, atol=3e-6)
    for reduction, of in (("mean", torch.mean), ("sum", torch.sum)):
        got = masked_kl(s, t, temperature=temperature, reduction=reduction, backend=backend)
        assert got.item() == pytest.approx(of(expected).item(), rel=1e-5, abs=1e-5)
    back = masked_kl(s, t, temperature=temperature, direction="reverse", reduction="none", backend=backend)
    assert torch.allclose(back.double(), reference(t, s, temperature), rtol=1e-5, atol=3e-6)
    both = masked_kl(s, t, temperature=temperature, direction="both", reduction="none", backend=backend)
    assert torch.allclose(both, kl + back, rtol=1e-5, atol=3e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_loss_of_distillation(backend):
    """T^2 sum m KL(teacher || student) / sum m with the soft mask of a window, and its gradient by hand."""
    s, t = logits(3, 5, 40), logits(3, 5, 40, seed=1)
    m = torch.rand(3, 5, generator=torch.Generator().manual_seed(2)).clamp(min=0.3) - 0.3
    assert (m == 0).any()
    s.requires_grad_()
    loss = masked_kl(s, t, m, temperature=3.0, scale_t2=True, backend=backend)
    assert loss.item() == pytest.approx((9 * (m * reference(s, t, 3.0)).sum() / m.sum()).item(), rel=1e-5)
    (g,) = gradient_of(loss, s)
    by_hand = 3.0 * (m / m.sum())[..., None] * (torch.softmax(s / 3, -1) - torch.softmax(t / 3, -1))
    assert torch.allclose(g, by_hand, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("backend", BACKENDS)
def test_two_classes_in_closed_form(backend):
    p, q = np.array([0.5, 0.9, 1e-6]), np.array([0.25, 0.9, 0.5])
    expected = p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))
    s, t = (torch.tensor(np.stack([np.log(x), np.log1p(-x)], axis=1), dtype=torch.float32) for x in (q, p))
    got = masked_kl(s, t, reduction="none", backend=backend)
    assert np.allclose(got.numpy(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_gaussians_on_a_grid(backend):
    """Logits -(x - mu)^2 / 2 sigma^2 on a fine grid: KL between N(mu, sigma^2), and T widens both by sqrt(T)."""
    x = torch.linspace(-40, 40, 8001, dtype=torch.float64)
    m1, s1, m2, s2, t = 0.5, 1.0, -1.0, 2.0, 2.0
    teacher, student = -((x - m1) ** 2) / (2 * s1**2), -((x - m2) ** 2) / (2 * s2**2)
    v1, v2 = t * s1**2, t * s2**2
    expected = 0.5 * (v1 / v2 + (m1 - m2) ** 2 / v2 - 1 + math.log(v2 / v1))
    got = masked_kl(student.float()[None], teacher.float()[None], temperature=t, backend=backend)
    assert got.item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("backend", "direction", "reduction"),
    [("plain", "reverse", "sum"), ("chunked", "forward", "mean"), ("chunked", "both", "none")],
)
def test_gradients_of_everything_in_float64(backend, direction, reduction):
    s, t = logits(2, 3, 5, dtype=torch.float64), logits(2, 3, 5, seed=1, dtype=torch.float64)
    w = torch.tensor([[1.0, 0.5, 2.0], [0.25, 1.0, 3.0]], dtype=torch.float64)
    columns = torch.tensor([True, True, False, True, True])

    def loss(s, t, w):
        return masked_kl(
            s, t, w, temperature=1.7, reduction=reduction, direction=direction, scale_t2=True, columns=columns,
            backend=backend,
        )  # fmt: skip

    assert masked_kl(s, t, w, backend=backend).dtype == torch.float64
    assert torch.autograd.gradcheck(loss, [x.requires_grad_() for x in (s, t, w)])


def with_holes():
    s, t = logits(6, 33), logits(6, 33, seed=1)
    s[0, :5] = t[0, :9] = -INF  # the student's support is larger than the teacher's
    t[1, 7] = -INF
    s[2] = t[2] = -INF
    s[2, 3] = t[2, 3] = 0.0  # one token left: both certain
    s[3, :] = t[3, :] - 100
    return s, t


def cases(rows, grad=True):
    """Inputs for `lab.kernels.check`; the square ones with so many rows."""
    found = []
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        for direction in ("forward", "reverse", "both"):
            found.append(
                {"student": logits(3, 70, dtype=dtype), "teacher": logits(3, 70, seed=1), "direction": direction}
            )
    for side in rows:  # the batches of a contrastive loss, also by columns
        a, b = logits(side, side), logits(side, side, seed=1)
        found += [{"student": a, "teacher": b}] + [{"student": a.T, "teacher": b.T}] * (side == 7)
    long = logits(2, 3, 4100, seed=2), logits(2, 3, 4100, seed=3)
    mask = torch.tensor([[1, 0, 0.5], [0, 0, 2.0]])
    found += [
        {
            "student": long[0],
            "teacher": long[1],
            "mask": mask,
            "direction": "both",
            "temperature": 3.0,
            "reduction": "none",
        },
        {"student": long[0][:, 1:], "teacher": long[1][:, :-1], "mask": mask[:, 1:] > 0, "reduction": "mean"},
        {"student": long[0], "teacher": long[1], "columns": torch.rand(4100) > 0.5, "direction": "both"},
        {"student": logits(2, 2, 2, 50), "teacher": logits(2, 2, 2, 50, seed=4), "mask": torch.ones(2, 2, 2).int()},
        {"student": logits(3, 49_152, scale=6.0), "teacher": logits(3, 49_152, seed=1), "temperature": 0.7},
        {"student": logits(151_936), "teacher": logits(151_936, seed=1)},
        dict(zip(("student", "teacher"), with_holes(), strict=True), reduction="none"),
        {"student": logits(2, 40, scale=1e4), "teacher": logits(2, 40, seed=1, scale=1e4), "temperature": 2.0},
        {"student": logits(0, 9), "teacher": logits(0, 9)},
    ]
    for case in found:
        for name in ("student", "teacher"):
            case[name] = case[name].to(kernels.device()).requires_grad_(grad)
    return found


@pytest.mark.parametrize("backend", BACKENDS[1:])
def test_streaming_forms_equal_the_definition(backend):
    every = cases((7, 64, 130) if backend == "chunked" or kernels.device().type == "cuda" else (7, 19))
    fine = [c for c in every if c["student"].dtype == torch.float32]
    both = functools.partial(masked_kl, backend=backend), functools.partial(masked_kl, backend="plain")
    report = kernels.check(*both, fine, rtol=2e-5, atol=1e-5).require()
    assert report.gradients == 2 * len(fine)
    halves = [c for c in every if c["student"].dtype != torch.float32]
    # The value is fp32; the gradient is rounded to the logits' own type, by at most one unit of bfloat16.
    kernels.check(*both, halves, rtol=8e-3, atol=1e-5).require()
    kernels.check(*both, [{**c, "student": c["student"].detach(), "teacher": c["teacher"].detach()} for c in halves],
                  rtol=2e-5, atol=1e-5).require()  # fmt: skip


def test_the_plain_form_has_torchs_gradient_for_half_precision():
    s, t = logits(4, 50, dtype=torch.bfloat16).requires_grad_(), logits(4, 50, seed=1, dtype=torch.float16)
    (g,) = gradient_of(masked_kl(s, t), s)
    wide = s.detach().double().requires_grad_()
    (truth,) = gradient_of(reference(wide, t).mean(), wide)
    assert g.dtype == torch.bfloat16
    assert torch.allclose(g.double(), truth, rtol=4e-3, atol=1e-9)


@pytest.mark.parametrize("backend", BACKENDS)
def test_zero_times_log_zero_and_mass_on_an_impossible_token(backend):
    s, t = with_holes()
    s.requires_grad_()
    kl = masked_kl(s, t, reduction="none", backend=backend)
    assert torch.isfinite(kl[[1, 2, 3, 4, 5]]).all()
    assert kl[0].isfinite()  # the student's holes lie within the teacher's
    assert kl[2] == 0
    assert kl[3].item() == pytest.approx(0, abs=1e-5)
    kept = t[1] > -INF
    q = F.log_softmax(s[1].double(), 0)
    p = F.log_softmax(t[1].double(), 0)
    assert kl[1].item() == pytest.approx((p.exp() * (p - q))[kept].sum().item(), rel=1e-5)
    (g,) = gradient_of(kl.sum(), s)
    assert torch.allclose(g, torch.softmax(s, -1) - torch.softmax(t, -1), atol=1e-6)
    # Now a token that the teacher thinks possible, however unlikely, and the student does not.
    for logit in (0.0, -500.0):
        holed = torch.tensor([[0.0, 1.0, -INF], [0.0, 1.0, 2.0]]).requires_grad_()
        sure = torch.tensor([[1.0, 1.0, logit], [0.0, 0.0, 0.0]])
        kl = masked_kl(holed, sure, reduction="none", backend=backend)
        assert kl[0] == INF
        assert kl[1].isfinite()
        (g,) = gradient_of(masked_kl(holed, sure, reduction="sum", backend=backend), holed)
        assert torch.allclose(g, torch.softmax(holed, -1) - torch.softmax(sure, -1), atol=1e-6)
        assert masked_kl(holed, sure, torch.tensor([0, 1]), backend=backend).isfinite()
        assert masked_kl(sure, holed, reduction="none", backend=backend).isfinite().all()
        assert masked_kl(sure, holed, direction="both", reduction="none", backend=backend)[0] == INF


@pytest.mark.parametrize(
    ("backend", "poison"),
    [(b, p) for b in EXACT for p in (float("nan"), INF, -INF)]
    + [pytest.param("triton", float("nan"), marks=needs_triton)],
)
def test_masked_rows_are_as_if_absent(backend, poison):
    s, t = logits(4, 30), logits(4, 30, seed=1)
    mask = torch.tensor([True, False, True, False])
    s[1], t[3], s[3, 4] = poison, poison, poison
    s.requires_grad_()
    t.requires_grad_()
    for direction in ("forward", "reverse", "both"):
        loss = masked_kl(s, t, mask, direction=direction, backend=backend)
        alone = masked_kl(s[mask], t[mask], direction=direction, backend=backend)
        assert loss.item() == pytest.approx(alone.item(), rel=1e-6)
        for g in gradient_of(loss, s, t):
            assert (g[~mask] == 0).all()
            assert g[mask].isfinite().all()
        each = masked_kl(s, t, mask, direction=direction, reduction="none", backend=backend)
        assert (each[~mask] == 0).all()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_nothing_to_count_is_zero(backend, reduction):
    s, t = logits(3, 9).requires_grad_(), torch.full((3, 9), float("nan")).requires_grad_()
    loss = masked_kl(s, t, torch.zeros(3), reduction=reduction, backend=backend)
    assert (loss == 0).all()
    for g in gradient_of(loss.sum(), s, t):
        assert (g == 0).all()
    assert (masked_kl(s[:0], t[:0], reduction=reduction, backend=backend) == 0).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_bad_rows_that_count_are_not_hidden(backend):
    t = logits(1, 9)
    for row in (torch.full((1, 9), -INF), t.clone().fill_(float("nan")), torch.where(t == t.max(), INF, t)):
        assert masked_kl(row, t, backend=backend).isnan()


@pytest.mark.parametrize("backend", BACKENDS)
def test_columns_that_are_no_tokens(backend):
    s, t = logits(4, 40).requires_grad_(), logits(4, 40, seed=1)
    valid = torch.arange(40) < 31
    rubbish = torch.where(valid, t, 1e30)
    got = masked_kl(s, rubbish, columns=valid, backend=backend)
    assert got.item() == pytest.approx(reference(s[:, :31], t[:, :31]).mean().item(), rel=1e-5)
    (g,) = gradient_of(got, s)
    assert (g[:, 31:] == 0).all()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("scale", [1e4, 6e4])
def test_extreme_logits(backend, scale):
    s, t = logits(6, 50, scale=scale), logits(6, 50, seed=1, scale=scale)
    kl = masked_kl(s, t, reduction="none", backend=backend)
    assert torch.allclose(kl.double(), reference(s, t), rtol=1e-5)
    half = (s / scale * 2e4).half()
    assert masked_kl(half, half.clone(), backend=backend) == 0
    assert masked_kl(half, half.clone() + 100, backend=backend).item() == pytest.approx(
        reference(half, half.clone() + 100).mean().item(), rel=1e-3, abs=1e-3
    )


CHANGES = {
    "vocab": st.integers(2, 40),
    "seed": st.integers(0, 2**20),
    "shift": st.integers(-64, 64),
    "temperature": st.sampled_from([0.5, 1.0, 2.0, 3.0]),
    "scale": st.sampled_from([0.0, 0.1, 3.0, 30.0]),
}


@pytest.mark.parametrize("backend", EXACT)
@settings(max_examples=15, deadline=None)
@given(**CHANGES)
@example(vocab=2, seed=0, shift=64, temperature=1.0, scale=0.1)
def test_what_leaves_a_divergence_alone(backend, vocab, seed, shift, temperature, scale):
    leaves_alone(backend, vocab, seed, shift, temperature, scale)


@needs_triton
@settings(max_examples=4, deadline=None)
@given(**CHANGES)
@example(vocab=2, seed=0, shift=64, temperature=1.0, scale=0.1)
def test_what_leaves_the_kernels_divergence_alone(vocab, seed, shift, temperature, scale):
    leaves_alone("triton", vocab, seed, shift, temperature, scale)


def leaves_alone(backend, vocab, seed, shift, temperature, scale):
    s, t = logits(3, vocab, seed=seed, scale=scale), logits(3, vocab, seed=seed + 1, scale=scale)
    kl = functools.partial(masked_kl, temperature=temperature, reduction="none", backend=backend)
    here = kl(s, t)
    close = functools.partial(torch.allclose, rtol=1e-4, atol=2e-5 * (1 + scale))
    assert (here >= (0 if backend == "triton" else -1e-5)).all()
    assert (kl(t, t.clone()) == 0).all()
    assert close(kl(s + shift, t), here)
    assert close(kl(s, t - shift), here)
    assert close(kl(t + shift, t), torch.zeros(3))
    order = torch.randperm(vocab, generator=torch.Generator().manual_seed(seed))
    assert close(kl(s[:, order], t[:, order]), here)
    assert close(masked_kl(s / temperature, t / temperature, reduction="none", backend=backend), here)
    truth = reference(s, t, temperature)
    assert (here[truth > 1e-4] > 0).all()


@pytest.mark.slow
def test_under_torch_compile_it_is_the_definition():
    # In a process of its own: the tests' shape checks are not for the compiler.
    code = """
import torch
from icml26.language.kernels import masked_kl
torch.manual_seed(0)
s, t = torch.randn(2, 3, 33, requires_grad=True), torch.randn(2, 3, 33)
mask = torch.tensor([[1.0, 0, 2], [0, 1, 0.5]])
def loss(s, t, mask):
    return masked_kl(s, t, mask, temperature=2.0, direction="both", columns=torch.arange(33) < 30)
compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
assert torch.allclose(compiled(s, t, mask), loss(s, t, mask), rtol=1e-5)
a, b = (torch.autograd.grad(f(s, t, mask), s)[0] for f in (compiled, loss))
assert torch.allclose(a, b, atol=1e-6)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_chunked_form_allocates_less_than_one_matrix():
    """Its temporaries are a few chunks of 4 MB; the textbook form has three matrices of the logits' size and more."""
    s, t = logits(256, 49_152, scale=1.0), logits(256, 49_152, seed=1, scale=1.0)
    matrix = s.numel() * 4

    def peak(call):
        with torch.profiler.profile(profile_memory=True) as profile:
            call()
        level = most = 0
        for event in profile.profiler.kineto_results.events():
            if event.name() == "[memory]":
                level += event.nbytes()
                most = max(most, level)
        return most

    def textbook():
        return F.kl_div(F.log_softmax(s, -1), F.softmax(t, -1), reduction="batchmean")

    assert peak(textbook) > 2 * matrix
    assert peak(lambda: masked_kl(s, t)) < matrix


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"student": torch.ones(3, 4).int()}, "student"),
        ({"teacher": torch.ones(3, 5)}, "teacher"),
        ({"student": torch.ones(3, 0), "teacher": torch.ones(3, 0)}, "student: got shape"),
        ({"mask": torch.ones(4)}, "mask"),
        ({"mask": torch.tensor([1.0, -1, 0])}, "mask: has negative"),
        ({"mask": torch.tensor([1.0, float("nan"), 0])}, "mask: has negative or non-finite"),
        ({"columns": torch.ones(3, dtype=torch.bool)}, "columns"),
        ({"columns": torch.zeros(4, dtype=torch.bool)}, "columns: are all False"),
        ({"temperature": 0.0}, "temperature: got 0.0"),
        ({"temperature": -1}, "temperature: got -1"),
        ({"temperature": float("nan")}, "temperature: got nan"),
        ({"reduction": "batchmean"}, "reduction"),
        ({"direction": "sideways"}, "direction"),
        ({"backend": "numpy"}, "backend"),
        ({"teacher": torch.ones(3, 4, device="meta")}, "teacher: is on meta"),
        ({"student": torch.ones(3, 4).double(), "backend": "triton"}, "backend: 'triton' sums in float32"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        masked_kl(**({"student": torch.ones(3, 4), "teacher": torch.ones(3, 4)} | arguments))


def test_without_triton_the_triton_backend_says_so(monkeypatch):
    monkeypatch.setattr("icml26.language.kernels.importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match="pip install triton"):
        masked_kl(torch.ones(1, 2), torch.ones(1, 2), backend="triton")


@needs_triton
@pytest.mark.network
@pytest.mark.parametrize("dtype", ["*fp32", "*fp16", "*bf16"])
@pytest.mark.parametrize("full", [True, False])
def test_the_kernels_compile_for_the_gpus_of_colab(dtype, full):
    from icml26.language import triton_kl

    shared = {"x_ptr": dtype, "y_ptr": dtype, "w_ptr": "*fp32", "valid_ptr": "*u8", "stats_ptr": "*fp32"}
    shared |= dict.fromkeys(("inner", "x_outer", "x_inner", "y_outer", "y_inner", "vocab"), "i32")
    shared["inverse_t"] = "fp32"
    options = {"HAS_WEIGHT": full, "HAS_VALID": full, "BOTH": full, "BLOCK": triton_kl.BLOCK}
    forward = shared | {"out_ptr": "*fp32"}
    backward = shared | {"g_ptr": "*fp32", "gx_ptr": dtype, "gy_ptr": dtype}
    check = functools.partial(kernels.compile_check, num_warps=triton_kl.WARPS)
    results = [check(triton_kl.forward_kernel, forward, options)]
    results.append(check(triton_kl.backward_kernel, backward, options | {"NEED_X": True, "NEED_Y": full}))
    for result in (r for found in results for r in found.values()):
        assert result.shared_bytes <= 16 * 1024
        assert result.registers <= 128
        assert result.local_bytes == 0


@needs_triton
def test_second_derivatives_of_the_kernel_are_refused_not_wrong():
    s, t = logits(3, 7).requires_grad_(), logits(3, 7, seed=1)
    with pytest.raises(RuntimeError, match="no second derivatives"):
        torch.autograd.grad(masked_kl(s, t, backend="triton"), s, create_graph=True)
