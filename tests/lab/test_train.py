"""`lab.train.fit` against hand-written loops, and against itself when interrupted."""

import os
import signal
import threading

import numpy as np
import pytest
import torch
from torch import nn

from icml26.lab import checkpoint as files
from icml26.lab.train import History, fit


class Net(nn.Module):
    """Dropout draws numbers, batch norm has buffers, a weight is tied: all that a resume can lose."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.3))
        self.one, self.two = nn.Linear(8, 8), nn.Linear(8, 8)
        self.two.weight = self.one.weight
        self.out = nn.Linear(8, 1)

    def forward(self, x):
        return self.out(self.two(torch.relu(self.one(self.body(x)))))


def net(seed=0):
    torch.manual_seed(seed)
    return Net()


def linear(seed=0):
    torch.manual_seed(seed)
    return nn.Linear(3, 1).double()


X = torch.randn(64, 3, generator=torch.Generator().manual_seed(1))
Y = X.sum(1, keepdim=True).sin()


def square(model, batch):
    x, y = batch
    return (model(x) - y).square().mean()


def noisy(i):
    """The i-th batch; its noise comes from torch's, numpy's and Python's generators, which must come back."""
    import random

    at = (i * 16) % 64
    x = (
        X[at : at + 16]
        + 0.01 * torch.randn(16, 3)
        + 0.01 * np.random.standard_normal()  # noqa: NPY002
        + random.random() / 100
    )
    return x.float(), Y[at : at + 16]


class Loader:
    """Shuffles by the global generator, as a DataLoader does."""

    def __iter__(self):
        for rows in torch.randperm(64).split(16):
            yield X[rows], Y[rows]


def adam(parameters):
    return torch.optim.AdamW(parameters, lr=1e-2, betas=(0.9, 0.95))


def weights(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def same(left, right):
    return left.keys() == right.keys() and all(torch.equal(left[k], right[k]) for k in left)


COMMON = {"optimizer": adam, "seed": 3, "accumulate": 2, "clip": 0.5, "schedule": lambda i: 1 / (1 + i)}


def test_equals_a_hand_written_loop():
    mine, theirs = linear(), linear()
    x, y = X.double(), Y.double()
    history = fit(
        mine, square, lambda i: (x, y), optimizer=lambda p: torch.optim.SGD(p, lr=0.1), steps=5, seed=0
    )
    optimizer = torch.optim.SGD(theirs.parameters(), lr=0.1)
    expected = []
    for _ in range(5):
        optimizer.zero_grad()
        value = (theirs(x) - y).square().mean()
        value.backward()
        optimizer.step()
        expected.append(value.item())
    assert same(weights(mine), weights(theirs))
    np.testing.assert_array_equal(history.losses, expected)
    assert isinstance(history, History)
    assert (history.steps, history.resumed_from, history.skipped, history.peak_bytes) == (5, 0, 0, 0)
    assert history.seconds > 0
    assert history.seconds_per_step == history.seconds / 5


def test_gradient_descent_has_its_closed_form():
    """On a quadratic a w^2 / 2, w after n steps is (1 - lr a)^n w: the schedule's factors multiply."""
    model = nn.Linear(1, 1, bias=False).double()
    nn.init.ones_(model.weight)
    factors = [1.0, 0.5, 0.25]
    fit(
        model,
        lambda m, a: (a * m.weight.square() / 2).sum(),
        lambda i: torch.tensor(3.0, dtype=torch.float64),
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        steps=3,
        schedule=lambda i: factors[i],
        seed=0,
    )
    assert model.weight.item() == pytest.approx(np.prod([1 - 0.3 * f for f in factors]), rel=1e-14)


def test_accumulated_small_batches_are_one_large_batch():
    small, large = linear(), linear()
    x, y = X.double(), Y.double()
    kw = {"optimizer": lambda p: torch.optim.SGD(p, lr=0.1), "steps": 4, "seed": 0, "clip": 0.3}
    a = fit(small, square, lambda i: (x[i % 4 :: 4], y[i % 4 :: 4]), accumulate=4, **kw)
    b = fit(large, square, lambda i: (x, y), **kw)
    np.testing.assert_allclose(a.losses, b.losses, rtol=1e-13)
    torch.testing.assert_close(small.weight, large.weight, rtol=1e-13, atol=0)


def test_clipping_bounds_the_step():
    model = linear()
    before = torch.cat([p.detach().clone().ravel() for p in model.parameters()])
    fit(
        model,
        lambda m, b: 1e6 * square(m, b),
        lambda i: (X.double(), Y.double()),
        optimizer=lambda p: torch.optim.SGD(p, lr=1.0),
        steps=1,
        clip=0.25,
        seed=0,
    )
    after = torch.cat([p.detach().ravel() for p in model.parameters()])
    assert (after - before).norm().item() == pytest.approx(0.25, rel=1e-5)


@pytest.mark.parametrize("batches", [noisy, Loader()], ids=["function", "loader"])
@pytest.mark.parametrize("cut", [1, 4, 5])
def test_resumed_equals_uninterrupted_to_the_last_bit(tmp_path, batches, cut):
    whole = net()
    a = fit(whole, square, batches, steps=7, **COMMON)
    path = tmp_path / "deep" / "run.safetensors"
    first = net()
    fit(first, square, batches, steps=cut, checkpoint=path, **COMMON)
    torch.manual_seed(99)
    np.random.seed(99)  # noqa: NPY002
    second = net(seed=5)  # another start: everything must come from the file
    b = fit(second, square, batches, steps=7, checkpoint=path, **COMMON)
    np.testing.assert_array_equal(a.losses, b.losses)
    assert same(weights(whole), weights(second))
    assert b.resumed_from == cut
    assert b.steps == 7
    assert second.one.weight is second.two.weight
    assert [file.name for file in path.parent.iterdir()] == ["run.safetensors"]


def test_the_comparison_above_can_fail(tmp_path, monkeypatch):
    """Without the generators' states the resumed run differs, so the bit-for-bit test is no tautology."""
    whole, second = net(), net()
    fit(whole, square, noisy, steps=7, **COMMON)
    path = tmp_path / "c"
    fit(net(), square, noisy, steps=4, checkpoint=path, **COMMON)
    monkeypatch.setattr("icml26.lab.train._set_random_states", lambda *a: None)
    torch.manual_seed(99)
    fit(second, square, noisy, steps=7, checkpoint=path, **COMMON)
    assert not same(weights(whole), weights(second))


def test_a_one_shot_iterator_goes_on(tmp_path):
    data = [(X[i : i + 16], Y[i : i + 16]) for i in range(0, 64, 16)] * 4
    whole, second = net(), net()
    fit(whole, square, iter(data), steps=6, **COMMON)
    path = tmp_path / "c"
    fit(net(), square, iter(data), steps=2, checkpoint=path, **COMMON)
    fit(second, square, iter(data), steps=6, checkpoint=path, **COMMON)
    assert same(weights(whole), weights(second))
    with pytest.raises(ValueError, match="batches: ended after 16 micro-batches"):
        fit(net(), square, iter(data), steps=9, **COMMON)
    with pytest.raises(ValueError, match="ended before the checkpoint's place, 12"):
        fit(net(), square, iter(data[:5]), steps=9, checkpoint=path, **COMMON)


def test_a_finished_run_is_only_loaded(tmp_path):
    path, model = tmp_path / "c", net()
    a = fit(model, square, noisy, steps=3, checkpoint=path, **COMMON)
    other = net(seed=9)

    def never(i):
        raise AssertionError

    b = fit(other, square, never, steps=2, checkpoint=path, **COMMON)
    assert same(weights(model), weights(other))
    np.testing.assert_array_equal(a.losses, b.losses)


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_ctrl_c_saves_between_two_steps(tmp_path):
    whole = net()
    a = fit(whole, square, noisy, steps=7, **COMMON)
    path = tmp_path / "c"
    sent = []

    def interrupted(i):
        if i == 7 and not sent:  # in the middle of the fourth step
            sent.append(i)
            os.kill(os.getpid(), signal.SIGINT)
        return noisy(i)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt, match="after step 4 of 7"):
        fit(net(), square, interrupted, steps=7, checkpoint=path, every=1000, **COMMON)
    assert signal.getsignal(signal.SIGINT) is before
    second = net(5)
    b = fit(second, square, interrupted, steps=7, checkpoint=path, **COMMON)
    assert b.resumed_from == 4
    np.testing.assert_array_equal(a.losses, b.losses)
    assert same(weights(whole), weights(second))


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_a_second_ctrl_c_does_not_wait(tmp_path):
    def stubborn(i):
        os.kill(os.getpid(), signal.SIGINT)
        return noisy(i)

    with pytest.raises(KeyboardInterrupt):
        fit(net(), square, stubborn, steps=7, checkpoint=tmp_path / "c", **COMMON)
    assert not (tmp_path / "c").exists()


def test_runs_in_a_thread_too():
    out = []
    thread = threading.Thread(target=lambda: out.append(fit(net(), square, noisy, steps=2, **COMMON)))
    thread.start()
    thread.join()
    assert out[0].steps == 2


def test_nan_names_the_step_and_keeps_the_weights(tmp_path):
    model, kept = net(), {}

    def poisoned(i):
        x, y = noisy(i)
        if i == 5:
            kept.update({name: value.detach().clone() for name, value in model.named_parameters()})
            y = y * float("nan")
        return x, y

    with pytest.raises(FloatingPointError, match="the loss is nan at step 2"):
        fit(model, square, poisoned, steps=7, checkpoint=tmp_path / "c", every=1, **COMMON)
    assert all(torch.equal(value, kept[name]) for name, value in model.named_parameters())
    assert files.load(tmp_path / "c")["step"] == 2  # the last good one


def test_an_infinite_gradient_is_named_when_clipping():
    model = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(model.weight)
    with pytest.raises(FloatingPointError, match="gradient's norm is .* at step 0"):
        # |w|^0.5 is 0 at 0, with an infinite slope
        fit(model, lambda m, b: m.weight.abs().sqrt().sum(), lambda i: 0, **COMMON, steps=1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": 4}, "its seed is 3, expected 4"),
        ({"accumulate": 1}, "its accumulate is 2, expected 1"),
        ({"optimizer": lambda p: torch.optim.SGD(p, lr=0.1)}, "its optimizer is 'AdamW', expected 'SGD'"),
        ({"model": nn.Linear(3, 1)}, "its parameters is"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(tmp_path, changes, message):
    path = tmp_path / "c"
    fit(net(), square, noisy, steps=1, checkpoint=path, **COMMON)
    arguments = {"model": net(), **COMMON} | changes
    with pytest.raises(ValueError, match=message):
        fit(arguments.pop("model"), square, noisy, steps=2, checkpoint=path, **arguments)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"steps": 0}, ValueError, "steps: got 0"),
        ({"accumulate": 0}, ValueError, "accumulate: got 0"),
        ({"every": 0}, ValueError, "every: got 0"),
        ({"clip": 0.0}, ValueError, "clip: got 0.0"),
        ({"loss": lambda m, b: m(b[0])}, TypeError, r"loss: returned \(16, 1\)"),
        ({"loss": lambda m, b: torch.ones(1)}, RuntimeError, "does not require grad"),
        ({"batches": []}, ValueError, "batches: ended after 0"),
        ({"model": nn.Linear(3, 1), "optimizer": lambda p: torch.optim.SGD([], lr=0.1)}, ValueError, "empty"),
    ],
)
def test_wrong_arguments_are_named(changes, error, message):
    arguments = {"model": net(), "loss": square, "batches": noisy, "steps": 1} | COMMON | changes
    with pytest.raises(error, match=message):
        fit(arguments.pop("model"), arguments.pop("loss"), arguments.pop("batches"), **arguments)


def test_amp_is_off_without_cuda():
    a, b = net(), net()
    fit(a, square, noisy, steps=2, device="cpu", amp=True, **COMMON)
    fit(b, square, noisy, steps=2, device="cpu", **COMMON)
    assert same(weights(a), weights(b))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_amp_trains_and_resumes_on_a_gpu(tmp_path):
    kw = COMMON | {"amp": True, "device": "cuda", "steps": 6}
    whole, second = net(), net()
    a = fit(whole, square, noisy, **kw)
    fit(net(), square, noisy, **(kw | {"steps": 3}), checkpoint=tmp_path / "c")
    b = fit(second, square, noisy, **kw, checkpoint=tmp_path / "c")
    np.testing.assert_allclose(a.losses, b.losses, rtol=1e-3)
    assert a.peak_bytes > 0


def test_batches_of_any_shape_reach_the_device():
    from collections import namedtuple

    Pair = namedtuple("Pair", "x y")
    seen = []

    def loss(model, batch):
        seen.append(batch)
        return model(batch["pair"].x).mean()

    batch = {"pair": Pair(X, [Y, (Y,)]), "name": "kept"}
    fit(net(), loss, lambda i: batch, steps=1, optimizer=adam, seed=0)
    assert isinstance(seen[0]["pair"], Pair)
    assert isinstance(seen[0]["pair"].y[1], tuple)
    assert seen[0]["name"] == "kept"


def test_checkpoint_holds_any_tree_without_pickle(tmp_path):
    path = tmp_path / "c"
    tree = {
        "a": [1, 2.5, None, True, "x", (1, (2, [3]))],
        "ints": {0: {"t": torch.arange(3), "half": torch.ones(2, 2).half().t()}, 7: {}},
        "odd": [0.1 + 0.2, float("inf"), 2**70, torch.zeros(0), torch.tensor(3, dtype=torch.uint8)],
        "tensor": {"dict": {"tuple": 1}},  # names that the format uses itself
    }
    files.save(path, tree)
    back = files.load(path)
    assert repr(back) == repr(tree)
    assert back["ints"][0]["half"].dtype == torch.float16
    assert b"pickle" not in path.read_bytes()
    with pytest.raises(TypeError, match=r"state.a\[1\] is set"):
        files.save(path, {"a": [1, {2}]})
    assert repr(files.load(path)) == repr(tree)  # the old file survives a failed save
    assert [file.name for file in tmp_path.iterdir()] == ["c"]


def test_a_damaged_checkpoint_is_named(tmp_path):
    from safetensors.torch import save_file

    path = tmp_path / "c"
    files.save(path, {"x": torch.arange(1000)})
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(ValueError, match="damaged"):
        files.load(path)
    save_file({"x": torch.zeros(1)}, path)
    with pytest.raises(ValueError, match="not written by lab.train"):
        files.load(path)


def infinite_slope(model, batch):
    return model.weight.abs().sqrt().sum()  # finite at 0, where its gradient is not


def test_a_gradient_that_is_not_finite_never_reaches_the_weights_or_the_file(tmp_path):
    model = nn.Linear(2, 1, bias=False)
    nn.init.zeros_(model.weight)
    with pytest.raises(FloatingPointError, match="a gradient is NaN or infinite at step 0"):
        fit(
            model,
            infinite_slope,
            lambda i: 0,
            optimizer=adam,
            steps=2,
            seed=0,
            checkpoint=tmp_path / "c",
            every=1,
        )
    assert torch.equal(model.weight, torch.zeros(1, 2))
    assert not (tmp_path / "c").exists()


def test_a_schedule_that_is_not_finite_is_named():
    model = net()
    with pytest.raises(ValueError, match="schedule: got nan for step 1"):
        fit(
            model, square, noisy, optimizer=adam, steps=3, seed=0, schedule=lambda i: 1.0 if i < 1 else np.nan
        )
    assert all(bool(value.isfinite().all()) for value in model.state_dict().values())


@pytest.mark.parametrize("steps", [2.5, float("nan"), True])
def test_steps_are_counted_in_integers(steps):
    with pytest.raises(TypeError, match="steps"):
        fit(net(), square, noisy, optimizer=adam, steps=steps, seed=0)


def test_an_optimizer_over_another_model_is_refused():
    with pytest.raises(ValueError, match="optimizer: got parameters that are not the model's"):
        fit(net(), square, noisy, optimizer=adam(net().parameters()), steps=1, seed=0)
