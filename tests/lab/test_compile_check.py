"""`lab.kernels.compile_check`: Triton 3.6.0 in an environment of its own."""

import importlib.util
import os
import sys
from pathlib import Path

import pytest

if importlib.util.find_spec("triton") is None:  # not importorskip: it would import triton too early
    pytest.skip("needs triton, which this platform has no build of", allow_module_level=True)
from icml26.lab import compiling, kernels
from icml26.lab.compiling import KernelCompileError, SharedMemoryError, compile_check
from icml26.lab.download import OfflineError
from icml26.lab.isolating import function_of, isolated_source

_spec = importlib.util.spec_from_file_location(
    "triton_samples", Path(__file__).with_name("triton_samples.py")
)
samples = importlib.util.module_from_spec(_spec)
sys.modules["triton_samples"] = samples
_spec.loader.exec_module(samples)

SCALE = {"x_ptr": "*fp32", "s_ptr": "*fp32", "y_ptr": "*fp32", "n": "i32"}
MATMUL = {"a_ptr": "*fp16", "b_ptr": "*fp16", "c_ptr": "*fp32", "k": "i32", "stride": "i32"}
network = pytest.mark.network


@network
def test_a_right_kernel_compiles_for_both_targets():
    results = compile_check(samples.scale_relu_kernel, SCALE, {"BLOCK": 256})
    assert list(results) == ["sm_75", "sm_80"]
    for result in results.values():
        assert result.shared_bytes == 0  # an elementwise kernel needs none
        assert 0 < result.registers <= 255
        assert result.local_bytes == 0
        assert result.tensor_core_ops == 0
        assert result.notes == ()
        assert result.seconds > 0


@network
@pytest.mark.parametrize(
    ("kernel", "signature", "constexprs"),
    [
        ("scale_relu_kernel", SCALE, {}),  # BLOCK has a default
        ("tuned_kernel", SCALE, {"BLOCK": 128}),
        (
            "scale_relu_backward_kernel",
            SCALE | {"g_ptr": "*fp32", "dx_ptr": "*fp32", "ds_ptr": "*fp32"},
            {"BLOCK": 64},
        ),
    ],
)
def test_wrapped_kernels_and_defaults(kernel, signature, constexprs):
    names = signature
    if kernel == "tuned_kernel":
        names = {"x_ptr": "*fp16", "s_ptr": "*fp16", "y_ptr": "*fp16", "n": "i64"}
    if "g_ptr" in signature:
        names = {name: type_ for name, type_ in signature.items() if name != "y_ptr"}
    assert compile_check(getattr(samples, kernel), names, constexprs, targets=["sm_75"])["sm_75"].registers


@network
def test_constants_dtypes_modules_and_renamed_functions_come_along():
    import triton.language as tl

    result = compile_check(
        samples.rich_kernel,
        {"x_ptr": "*fp32", "y_ptr": "*fp32", "n": "i32"},
        {"BLOCK": 32, "KIND": tl.float32},
    )
    assert result["sm_75"].shared_bytes == result["sm_80"].shared_bytes == 0


@network
def test_shared_memory_and_tensor_cores_are_counted():
    results = compile_check(samples.matmul_kernel, MATMUL, {"M": 32, "K": 32})
    # Two 32 x 32 fp16 tiles are 4096 bytes; sm_80 keeps num_stages - 1 = 2 pairs in flight.
    assert results["sm_80"].shared_bytes == 2 * 4096
    assert results["sm_75"].shared_bytes == 4096
    assert results["sm_80"].tensor_core_ops > 0
    assert results["sm_80"].notes == ()
    assert results["sm_75"].tensor_core_ops == 0
    assert "without tensor cores" in results["sm_75"].notes[0]
    deeper = compile_check(samples.matmul_kernel, MATMUL, {"M": 32, "K": 32}, targets=["sm_80"], num_stages=4)
    assert deeper["sm_80"].shared_bytes == 3 * 4096


@network
def test_too_much_shared_memory_is_refused():
    with pytest.raises(SharedMemoryError, match=r"wants 65536 bytes .* on sm_80, limit 49152"):
        compile_check(samples.matmul_kernel, MATMUL, {"M": 64, "K": 128}, targets=["sm_80"])
    with pytest.raises(SharedMemoryError, match="limit 8191"):
        compile_check(samples.matmul_kernel, MATMUL, {"M": 32, "K": 32}, targets=["sm_80"], limit=8191)


@network
@pytest.mark.parametrize(
    ("kernel", "constexprs", "message"),
    [
        ("shape_error_kernel", {"BLOCK": 16}, r"(?s)does not compile for sm_75.*tl\.store.*\^.*(16|32)"),
        ("unknown_name_kernel", {}, r"(?s)missing_value is not defined"),
        ("plain_global_kernel", {}, r"(?s)PLAIN.*constexpr"),
    ],
)
def test_compile_errors_are_readable(kernel, constexprs, message):
    with pytest.raises(KernelCompileError, match=message) as caught:
        compile_check(getattr(samples, kernel), {"x_ptr": "*fp32"}, constexprs)
    assert len(str(caught.value)) < 3000
    assert "Traceback" not in str(caught.value)


@network
def test_a_kernel_that_takes_too_long_is_stopped():
    with pytest.raises(KernelCompileError, match=r"did not compile for sm_75 .* in 1 s"):
        compile_check(samples.matmul_kernel, MATMUL, {"M": 128, "K": 64}, targets=["sm_75"], timeout=1.0)


@network
def test_the_environment_has_neither_torch_nor_this_package():
    import subprocess

    python = compiling.compiler()
    code = (
        "import importlib.util as u, triton\n"
        "print(triton.__version__, u.find_spec('torch'), u.find_spec('icml26'))"
    )
    clean = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run([python, "-I", "-c", code], env=clean, capture_output=True, text=True, check=True)
    assert done.stdout == "3.6.0 None None\n"
    assert compiling.compiler() == python


def test_a_half_made_environment_is_made_again_and_offline_says_how(tmp_path, monkeypatch):
    monkeypatch.setenv("ICML26_CACHE", str(tmp_path))
    monkeypatch.setenv("ICML26_OFFLINE", "1")
    monkeypatch.setattr(compiling, "TRITON", "3.6.0+none")  # never the one installed here
    with pytest.raises(OfflineError, match=r"python -m venv .* pip install .*triton==3\.6\.0"):
        compiling.compiler()
    monkeypatch.setenv("ICML26_OFFLINE", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    commands = []

    def run(command, **options):
        import subprocess

        commands.append(command)
        if "venv" in command:
            Path(command[-1], "bin").mkdir(parents=True)
            Path(command[-1], "bin", "python").touch()
            return subprocess.CompletedProcess(command, 0, "", "")
        return subprocess.CompletedProcess(command, 1 if len(commands) == 2 else 0, "", "no such wheel")

    monkeypatch.setattr(compiling.subprocess, "run", run)
    with pytest.raises(OfflineError, match="no such wheel"):
        compiling.compiler()
    assert [entry.name for entry in tmp_path.iterdir()] == [".locks"]
    python = compiling.compiler()
    assert (python.parent.parent / "complete").exists()
    assert len(commands) == 4
    (python.parent.parent / "complete").unlink()  # as a process killed during pip leaves it
    compiling.compiler()
    assert len(commands) == 6
    compiling.compiler()
    assert len(commands) == 6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"signature": {"x_ptr": "*fp32"}}, r"signature: got \['x_ptr'\], expected the run-time arguments"),
        ({"signature": SCALE | {"BLOCK": "i32"}}, "signature: got"),
        ({"signature": SCALE | {"n": "int"}}, "signature: n is 'int'"),
        ({"signature": SCALE | {"n": "*fp12"}}, "signature: n is"),
        ({"constexprs": {"BLCK": 3}}, "constexprs: got"),
        ({"targets": []}, "targets: got none"),
        ({"targets": ["sm_70"]}, "targets: got 'sm_70'"),
        ({"targets": ["gfx90a"]}, "targets: got 'gfx90a'"),
        ({"num_warps": 0}, "num_warps: got 0"),
        ({"num_stages": True}, "num_stages: got True"),
    ],
)
def test_wrong_arguments_are_named_before_anything_is_installed(arguments, message, monkeypatch):
    monkeypatch.setattr(compiling, "compiler", lambda: pytest.fail("must not get here"))
    given = {"signature": SCALE, "constexprs": {"BLOCK": 64}} | arguments
    with pytest.raises(ValueError, match=message):
        compile_check(samples.scale_relu_kernel, **given)


def test_what_cannot_be_carried_is_refused():
    with pytest.raises(ValueError, match="reads_torch_kernel.* reads the module 'torch'"):
        compile_check(samples.reads_torch_kernel, {"x_ptr": "*fp32"}, {})
    with pytest.raises(ValueError, match="reads 'TABLE', a ndarray"):
        compile_check(samples.reads_table_kernel, {"x_ptr": "*fp32"}, {})
    with pytest.raises(TypeError, match="constexprs: BLOCK is list"):
        compile_check(samples.scale_relu_kernel, SCALE, {"BLOCK": [1]})
    for wrong in (len, 3, lambda x: x):
        with pytest.raises(TypeError, match="kernel: got .* expected a @triton.jit function"):
            compile_check(wrong, {}, {})


def test_isolated_source_holds_what_is_needed_and_no_more():
    text = isolated_source(function_of(samples.scale_relu_kernel))
    assert "def relu(x)" in text
    assert "rectify = relu" in text
    assert "SLOPE = tl.constexpr(0.0)" in text
    assert text.index("SLOPE = ") < text.index("def relu") < text.index("def scale_relu_kernel")
    for absent in ("torch", "numpy", "FLOOR", "matmul"):
        assert absent not in text
    compile(text, "isolated", "exec")


def test_the_same_names_from_kernels():
    assert kernels.compile_check is compile_check
    assert os.environ.get("TRITON_INTERPRET") is None or kernels.interpreting()
