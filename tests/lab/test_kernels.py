"""`lab.kernels.check`: a right kernel passes, and each way of being wrong is caught and named."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import torch

if importlib.util.find_spec("triton") is None:  # not importorskip: it would import triton too early
    pytest.skip("needs triton, which this platform has no build of", allow_module_level=True)
from icml26.lab import kernels
from icml26.lab.kernels import check

_spec = importlib.util.spec_from_file_location(
    "triton_samples", Path(__file__).with_name("triton_samples.py")
)
samples = importlib.util.module_from_spec(_spec)
sys.modules["triton_samples"] = samples
_spec.loader.exec_module(samples)


def kernel(x, s):
    return samples.ScaleRelu.apply(x, s)


def case(n=100, grad=True, seed=0, s=1.5):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, generator=generator).to(kernels.device())
    return x.requires_grad_(grad), torch.tensor(s, device=kernels.device()).requires_grad_(grad)


CASES = [case(), case(n=1, seed=1), case(n=64, seed=2, s=-0.5), case(n=129, grad=False), case(n=130, s=0.0)]


def test_a_right_kernel_passes():
    report = check(kernel, samples.twin, CASES)
    assert report.ok, str(report)
    assert (report.cases, report.outputs, report.gradients) == (5, 5, 8)
    assert 0 <= report.worst <= 1
    assert report.require() is report


def test_arguments_by_name_and_several_outputs():
    def two(a, b):
        return a + b, a * b

    report = check(two, two, [{"b": torch.ones(2, requires_grad=True), "a": torch.ones(2)}])
    assert report.ok
    assert (report.outputs, report.gradients) == (2, 1)


class WrongSlope(torch.autograd.Function):
    """The right value with a wrong gradient for its first argument."""

    @staticmethod
    def forward(ctx, x, s):
        ctx.save_for_backward(x, s)
        return torch.relu(x * s)

    @staticmethod
    def backward(ctx, g):
        x, s = ctx.saved_tensors
        g = torch.where(x * s > 0, g, 0.0)
        return g * s * 1.01, (g * x).sum()


def off_by_one(x, s):
    y = kernel(x, s).clone()
    y[-1] += 1e-3
    return y


def broken(x, s):
    raise RuntimeError("out of resources")


class BrokenBackward(WrongSlope):
    @staticmethod
    def backward(ctx, g):
        raise RuntimeError("no backward kernel")


class MissingSlope(WrongSlope):
    @staticmethod
    def backward(ctx, g):
        return WrongSlope.backward(ctx, g)[0] / 1.01, None


def overwrites(x, s):
    y = kernel(x, s)
    with torch.no_grad():
        x.mul_(2.0)
    return y


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (off_by_one, r"case 0, output 0: 1 of 100 values differ, most at \(99,\)"),
        (lambda x, s: kernel(x, s).half(), "output 0: dtype is torch.float16, expected torch.float32"),
        (lambda x, s: kernel(x, s).double(), "output 0: dtype is torch.float64, expected torch.float32"),
        (lambda x, s: kernel(x, s)[None], r"output 0: shape is \(1, 100\), expected \(100,\)"),
        (lambda x, s: kernel(x, s)[:-1], r"output 0: shape is \(99,\)"),
        (lambda x, s: kernel(x, s) * float("nan"), "output 0: 100 of 100 values differ.*nan"),
        (lambda x, s: (kernel(x, s), s), "2 outputs, expected 1"),
        (lambda x, s: None, "output 0: is NoneType, expected a tensor"),
        (lambda x, s: kernel(x, s).detach(), "an output has no gradient, its twin has one"),
        (WrongSlope.apply, r"gradient of argument 0: \d+ of 100 values differ"),
        (MissingSlope.apply, "gradient of argument 1: is missing, expected there"),
        (BrokenBackward.apply, "backward pass raised RuntimeError: no backward kernel"),
        (broken, "the kernel raised RuntimeError: out of resources"),
        (overwrites, "argument 0 after the call: 100 of 100 values differ"),
    ],
)
def test_each_way_of_being_wrong_is_named(wrong, message):
    report = check(wrong, samples.twin, [case()])
    assert not report.ok
    assert report.worst > 1
    with pytest.raises(AssertionError, match=message):
        report.require()


def test_one_wrong_case_among_right_ones():
    def wrong_when_large(x, s):
        y = kernel(x, s)
        return y if x.numel() < 128 else y + 1

    report = check(wrong_when_large, samples.twin, CASES)
    assert [failure.split(",")[0] for failure in report.failures] == ["case 3", "case 4"]


def test_tolerance_is_what_it_says():
    def shifted(x):
        return x + 1e-3

    ones = [(torch.ones(3, dtype=torch.float64),)]
    assert check(shifted, lambda x: x, ones, rtol=0.0, atol=1.001e-3).ok
    assert not check(shifted, lambda x: x, ones, rtol=0.0, atol=0.999e-3).ok
    assert check(shifted, lambda x: x, ones, rtol=1.001e-3, atol=0.0).ok
    assert check(shifted, lambda x: x, ones, rtol=0.0, atol=2e-3).worst == pytest.approx(0.5)
    assert check(lambda x: x, lambda x: x, ones, rtol=0.0, atol=0.0).ok


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_special_values(value):
    def give(v):
        return lambda x: torch.full_like(x, v)

    here = [(torch.zeros(2),)]
    assert check(give(value), give(value), here).ok
    assert not check(give(0.0), give(value), here).ok
    assert not check(give(value), give(0.0), here).ok
    assert not check(give(-value), give(float("inf")), here).ok or value == -float("inf")


def test_strides_are_kept_and_the_callers_tensors_left_alone():
    seen = []
    x = torch.arange(24.0).reshape(4, 6)[:, ::2]
    wide = torch.ones(1).expand(5)

    def spy(a, b, c):
        seen.append((a.stride(), b.stride(), c.stride()))
        assert a.data_ptr() != x.data_ptr()
        return a.add_(1)

    assert check(spy, spy, [(x, x.t(), wide)]).ok
    assert seen == [((6, 2), (2, 6), (0,))] * 2
    assert x[0, 0] == 0


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="cases: got none"):
        check(kernel, samples.twin, [])
    with pytest.raises(TypeError, match="case 0 is Tensor|parameter 'cases'"):
        check(kernel, samples.twin, [torch.ones(2)])
    with pytest.raises(ValueError, match="rtol, atol"):
        check(kernel, samples.twin, CASES, rtol=-1.0)


def test_an_error_in_the_twin_is_raised():
    with pytest.raises(RuntimeError, match="out of resources"):
        check(kernel, broken, CASES)


def run(code):
    import os

    names = {"TRITON_INTERPRET", "CUDA_VISIBLE_DEVICES"}
    clean = {name: value for name, value in os.environ.items() if name not in names}
    clean |= {"CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", code], env=clean, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.slow
def test_interpreter_is_chosen_before_triton_comes():
    done = run("import triton\nfrom icml26.lab import kernels\nprint(kernels.interpreting())")
    assert done.stdout == "True\n"
    assert "RuntimeWarning: __main__ imported triton before" in done.stderr
    # Making an optimizer imports triton behind the scenes, as a notebook does before it comes to kernels.
    done = run(
        "import sys, torch\n"
        "torch.optim.SGD([torch.nn.Parameter(torch.ones(1))])\n"
        "print('triton' in sys.modules)\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import triton_samples\n"
        "y = triton_samples.ScaleRelu.apply(torch.tensor([-1.0, 3.0]), torch.tensor(2.0))\n"
        "torch.optim.SGD([torch.nn.Parameter(torch.ones(1))])\n"
        "print(y.abs().tolist())"
    )
    assert done.stdout == "True\n[0.0, 6.0]\n"
    assert "RuntimeWarning" not in done.stderr


def test_the_readers_own_choice_stands(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    kernels._choose_interpreter()
    assert not kernels.interpreting()
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert kernels.interpreting()
    assert kernels.device() == torch.device("cpu")


def test_a_kernel_in_a_shape_checked_module(tmp_path, monkeypatch):
    """The import hook of the tests decorates every annotated function; `no_type_check` keeps kernels bare."""
    from jaxtyping import install_import_hook

    (tmp_path / "hooked_kernels.py").write_text(
        "from typing import no_type_check\n"
        "from icml26.lab import kernels\n"
        "import triton\n"
        "import triton.language as tl\n"
        "@no_type_check\n"
        "@triton.jit\n"
        "def double_kernel(x_ptr, n, BLOCK: tl.constexpr):\n"
        "    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
        "    tl.store(x_ptr + at, 2 * tl.load(x_ptr + at, mask=at < n), mask=at < n)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with install_import_hook("hooked_kernels", "beartype.beartype"):
        import hooked_kernels

    def launch(x):
        hooked_kernels.double_kernel[(3,)](x, x.numel(), BLOCK=16)
        return x

    def plain(x):
        return x.mul_(2)

    assert check(launch, plain, [(torch.arange(40.0, device=kernels.device()),)]).require().ok
    from icml26.lab.isolating import function_of, isolated_source

    assert "no_type_check" not in isolated_source(function_of(hooked_kernels.double_kernel))


@pytest.mark.parametrize(
    ("right", "wrong"),
    [(2**53, 2**53 + 1), (200_000, 200_001), (True, False)],
    ids=["beyond float64", "within rtol", "boolean"],
)
def test_integers_have_no_tolerance(right, wrong):
    report = check(lambda x: torch.tensor([1, wrong]), lambda x: torch.tensor([1, right]), [(torch.ones(1),)])
    assert not report.ok
    assert "1 of 2 values differ, first at (1,)" in str(report)
    assert check(lambda x: x, lambda x: x.clone(), [(torch.tensor([2**53 + 1]),)]).ok


def test_nested_arguments_are_copied_and_nested_outputs_compared():
    def twin(state, scale):
        state["m"][0] += 1
        return {"y": state["m"][0] * state["w"], "rest": [scale, (state["w"] ** 2,)]}

    def wrong(state, scale):
        out = twin(state, scale)
        state["m"][0] += 1
        return out

    def tripled(state, scale):
        out = twin(state, scale)
        return out | {"y": 3 * out["y"] - 2 * out["y"].detach()}

    def states():
        return {"m": [torch.zeros(3)], "w": torch.ones(3, requires_grad=True)}

    state = states()
    report = check(twin, twin, [(state, 2.0)])
    assert report.ok, str(report)
    assert (report.outputs, report.gradients) == (2, 1)
    assert torch.equal(state["m"][0], torch.zeros(3))
    assert "argument 0.m.0 after the call" in str(check(wrong, twin, [(states(), 2.0)]))
    assert "gradient of argument 0.w" in str(check(tripled, twin, [(states(), 2.0)]))
    assert "outputs are" in str(check(lambda state, scale: {"z": 1, "a": 2, "b": 3}, twin, [(states(), 2.0)]))
