"""`temporarily`: whatever is done to a model inside is undone, seen by an independent look at every byte."""

import copy
import itertools

import pytest
import torch
from torch import nn

from icml26.language.interventions import (
    clone_state,
    fingerprint,
    freeze,
    no_trace,
    own_weights,
    restore_state,
    temporarily,
)

transformers = pytest.importorskip("transformers")


def llama(**changes):
    torch.manual_seed(0)
    options = {
        "vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "tie_word_embeddings": True, "max_position_embeddings": 64,
    }  # fmt: skip
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**(options | changes))).eval()


@pytest.fixture
def model():
    return llama()


IDS = torch.arange(18).reshape(2, 9)


def logits(model):
    with torch.no_grad():
        return model(IDS).logits


def naive_look(model):
    """What must not change, without the module under test: bytes, identities, flags, hooks, config."""
    found = {}
    for name, module in model.named_modules(remove_duplicate=False):
        found[name, "module"] = id(module), type(module), module.training, sorted(vars(module))
        for key, value in vars(module).items():
            if isinstance(value, dict):
                found[name, key] = [(k, id(v)) for k, v in value.items()]
    named = itertools.chain(model.named_parameters(remove_duplicate=False), model.named_buffers(remove_duplicate=False))
    for name, tensor in named:
        numbers = tensor.detach().clone().view(torch.uint8).numpy().tobytes()
        gradient = None if tensor.grad is None else (id(tensor.grad), tensor.grad.clone().numpy().tobytes())
        hooks = [list(getattr(tensor, key) or ()) for key in ("_backward_hooks", "_post_accumulate_grad_hooks")]
        found[name, "tensor"] = id(tensor), tensor.dtype, tensor.requires_grad, numbers, gradient, hooks
    found["config"] = copy.deepcopy(model.config.to_dict()), id(model.config), model.model.config is model.config
    return found


class Lora(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base
        self.down, self.up = nn.Linear(base.in_features, 2, bias=False), nn.Linear(2, base.out_features, bias=False)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


def writes(m):
    with torch.no_grad():
        m.model.layers[0].mlp.up_proj.weight.mul_(2)
    m.model.layers[1].self_attn.q_proj.weight.data[3] = 7.0  # unseen by the version counter
    m.model.norm.weight.detach().zero_()


def numpy_writes(m):
    m.model.embed_tokens.weight.detach().numpy()[:] = 0


def swaps_data(m):
    m.model.layers[0].mlp.up_proj.weight.data = torch.zeros(3, 3)


def replaces(m):
    m.lm_head.weight = nn.Parameter(torch.zeros(96, 32))  # unties
    m.model.layers[0].input_layernorm.weight = nn.Parameter(torch.zeros(32), requires_grad=False)
    del m.model.layers[1].mlp.down_proj.weight


def casts(m):
    m.half()
    m.to(torch.bfloat16)


def freezes(m):
    freeze(m)


def trains(m):
    m.train()
    m(IDS, labels=IDS).loss.backward()
    for optimiser in (torch.optim.AdamW(m.parameters(), lr=0.1), torch.optim.SGD(m.parameters(), lr=0.1, foreach=True)):
        optimiser.step()


def leaves_gradients(m):
    m(IDS, labels=IDS).loss.backward()


def hooks(m):
    layer = m.model.layers[0]
    layer.register_forward_hook(lambda *a: None)
    layer.register_forward_hook(lambda *a, **k: None, with_kwargs=True, always_call=True)
    layer.register_forward_pre_hook(lambda *a: None, prepend=True)
    layer.register_full_backward_hook(lambda *a: None)
    layer.register_full_backward_pre_hook(lambda *a: None)
    layer.register_state_dict_post_hook(lambda *a: None)
    layer.register_state_dict_pre_hook(lambda *a: None)
    layer.register_load_state_dict_post_hook(lambda *a: None)
    m.lm_head.weight.register_hook(lambda g: 2 * g)
    m.lm_head.weight.register_post_accumulate_grad_hook(lambda p: None)


def lora(m):
    for block in m.model.layers:
        block.self_attn.o_proj = Lora(block.self_attn.o_proj)


def prunes(m):
    for block in m.model.layers:
        mlp, keep = block.mlp, torch.arange(0, 48, 2)
        for name in ("gate_proj", "up_proj"):
            old = getattr(mlp, name)
            setattr(mlp, name, nn.Linear(32, 24, bias=False))
            getattr(mlp, name).weight.data = old.weight.data[keep].clone()
        mlp.down_proj.weight = nn.Parameter(mlp.down_proj.weight[:, keep].detach().clone())
        mlp.down_proj.in_features = 24
    m.config.intermediate_size = 24
    assert logits(m).isfinite().all()


def prunes_by_torch(m):
    import torch.nn.utils.prune as prune

    prune.l1_unstructured(m.model.layers[0].mlp.up_proj, "weight", amount=0.5)


def parametrises(m):
    nn.utils.parametrizations.weight_norm(m.model.layers[0].mlp.up_proj)
    assert type(m.model.layers[0].mlp.up_proj) is not nn.Linear


def drops_layers(m):
    m.model.layers = m.model.layers[:1]
    m.config.num_hidden_layers = 1
    del m.model.norm
    m.extra = nn.Linear(2, 2)
    m.register_buffer("more", torch.ones(2), persistent=False)
    m.note = "said"


def flags(m):
    m.train()
    m.model.layers[1].eval()


def configures(m):
    m.config.use_cache = False
    m.config.rope_parameters["rope_theta"] = 3.0
    m.config.invented = [1]
    del m.config.hidden_act
    m.generation_config.temperature = 0.5
    m.model.config = copy.deepcopy(m.config)


def patches(m):
    m.model.layers[0].forward = lambda x, **k: x
    m.model.rotary_emb.inv_freq.mul_(0)


def quantises(m):
    for p in m.parameters():
        p.data = (p.data * 8).round() / 8


DEEDS = [
    writes, numpy_writes, swaps_data, replaces, casts, freezes, trains, leaves_gradients, hooks, lora, prunes,
    prunes_by_torch, parametrises, drops_layers, flags, configures, patches, quantises,
]  # fmt: skip


@pytest.mark.parametrize("deed", DEEDS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("lazily", [True, False], ids=["lazily", "copied"])
def test_each_deed_is_undone_and_was_seen(model, deed, lazily, monkeypatch):
    if not lazily:  # as with weights mapped from a file
        monkeypatch.setattr("icml26.language.interventions._lazy", lambda tensor: None)
    before, answer, mark = naive_look(model), logits(model), fingerprint(model)
    with no_trace(model), temporarily(model) as inside:
        assert inside is model
        deed(model)
        assert naive_look(model) != before
        assert fingerprint(model) != mark
    assert naive_look(model) == before
    assert fingerprint(model) == mark
    assert torch.equal(logits(model), answer)
    assert model.lm_head.weight is model.model.embed_tokens.weight


def fails(error, model, *deeds):
    """Do all that inside, then leave by an exception."""
    with temporarily(model):
        for deed in deeds:
            deed(model)
        raise error


def test_an_exception_inside_nested_and_with_everything_at_once(model):
    model.lm_head.register_forward_hook(lambda *a: None)
    model.model.layers[0].mlp.requires_grad_(False)
    leaves_gradients(model)
    before = naive_look(model)

    def each_in_turn(model):
        for deed in DEEDS:
            middle = naive_look(model)
            with temporarily(model):
                deed(model)
            assert naive_look(model) == middle

    def an_inner_failure(model):
        middle = naive_look(model)
        with pytest.raises(ZeroDivisionError):
            fails(ZeroDivisionError, model, trains)
        assert naive_look(model) == middle

    with pytest.raises(KeyError, match="deliberate"):
        fails(KeyError("deliberate"), model, each_in_turn, writes, lora, hooks, flags, configures, an_inner_failure)
    assert naive_look(model) == before


def test_a_later_lazy_copy_does_not_hide_an_earlier_write(model):
    before = naive_look(model)
    with temporarily(model):
        writes(model)
        with temporarily(model):  # shares the memory of the changed weights
            pass
    assert naive_look(model) == before


def test_handles_and_optimisers_from_before_stay_valid(model):
    fired = []
    handle = model.lm_head.register_forward_hook(lambda *a: fired.append(1))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    with temporarily(model):
        handle.remove()
        logits(model)
        assert not fired
        inner = model.lm_head.register_forward_hook(lambda *a: fired.append(2))
    logits(model)
    assert fired == [1]
    inner.remove()  # of a hook that is gone already: nothing happens
    handle.remove()
    assert not model.lm_head._forward_hooks
    model(IDS, labels=IDS).loss.backward()
    before = model.lm_head.weight.detach().clone()
    optimiser.step()
    assert not torch.equal(before, model.lm_head.weight)


def test_weights_that_are_only_read_are_never_copied(model):
    address = torch._C._data_address
    parameters = list(model.parameters())
    places = [address(p) for p in parameters]
    state = clone_state(model)
    values = [t.values for t in state.tensors]
    model(IDS, labels=IDS).loss.backward()
    model.generate(IDS, max_new_tokens=2, do_sample=False)
    fingerprint(model)
    assert [address(p) for p in parameters] == places
    assert all(address(v) in places for v, p in zip(values, parameters, strict=False))
    with torch.no_grad():
        parameters[3].add_(1)
    assert [address(p) == place for p, place in zip(parameters, places, strict=True)].count(False) <= 1
    versions = [p._version for p in parameters]
    restore_state(model, state)
    assert [p._version - v for p, v in zip(parameters, versions, strict=True)] == [
        int(k == 3) for k in range(len(parameters))
    ]


def test_a_state_can_be_restored_again_and_again(model):
    state, before = clone_state(model), naive_look(model)
    for deed in (writes, trains, lora, configures, writes):
        deed(model)
        restore_state(model, state)
        assert naive_look(model) == before
    other = llama()
    with pytest.raises(ValueError, match="state: was taken from another model"):
        restore_state(other, state)


def writes_to(model, name, weights):
    with temporarily(model, weights=weights):
        flags(model)
        model.get_parameter(name).mul_(1.0)


def test_weights_left_out_are_watched(model):
    before = naive_look(model)
    with temporarily(model, weights=False):  # everything but values
        for deed in (hooks, lora, flags, configures, freezes, replaces, drops_layers):
            deed(model)
    assert naive_look(model) == before
    with temporarily(model, weights=["model.layers.1", "model.norm.weight"]), torch.no_grad():
        model.model.layers[1].mlp.up_proj.weight.zero_()
        model.model.norm.weight.zero_()
    assert naive_look(model) == before
    name = "model.layers.0.mlp.up_proj.weight"
    with torch.no_grad(), pytest.raises(RuntimeError, match=f"{name}: changed, but left out"):
        writes_to(model, name, weights=False)
    assert naive_look(model) == before
    with pytest.raises(RuntimeError, match=name), temporarily(model, weights="model.layers.1"):
        model.get_parameter(name).data = torch.zeros(48, 32)
    assert naive_look(model) == before  # the old memory was still there
    with pytest.raises(ValueError, match="weights: 'model.layer' fits no tensor.*model.embed_tokens"):
        writes_to(model, name, weights=["model.layer"])
    assert naive_look(model) == before


def test_untied_meta_and_batch_norm_models():
    apart = llama(tie_word_embeddings=False)
    before = naive_look(apart)
    with temporarily(apart):
        apart.lm_head.weight = apart.model.embed_tokens.weight  # ties
    assert naive_look(apart) == before
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    with no_trace(net), temporarily(net):
        net(torch.randn(8, 3))  # moves the running statistics
        assert net[1].num_batches_tracked == 1
    with torch.device("meta"):
        ghost = nn.Linear(3, 4)
    with no_trace(ghost), temporarily(ghost):
        ghost.weight = nn.Parameter(torch.ones(4, 3))


def test_inside_inference_mode(model):
    before = naive_look(model)
    with torch.inference_mode(), temporarily(model):
        model.lm_head.weight.mul_(2)
    assert naive_look(model) == before


def test_overlapping_views_and_weights_mapped_from_a_file(tmp_path):
    llama().save_pretrained(tmp_path)
    mapped = transformers.LlamaForCausalLM.from_pretrained(tmp_path, dtype=torch.float32).eval()
    before = {n: p.detach().clone() for n, p in mapped.named_parameters()}
    lazy = [state.lazy for state in clone_state(mapped).tensors]
    with no_trace(mapped):
        assert own_weights(mapped) is mapped
    assert all(torch.equal(p, before[n]) for n, p in mapped.named_parameters())
    assert mapped.lm_head.weight is mapped.model.embed_tokens.weight
    assert all(state.lazy for state in clone_state(mapped).tensors)
    assert not all(lazy)
    with no_trace(mapped), temporarily(mapped):
        writes(mapped)
    net = nn.Module()
    net.whole = nn.Parameter(torch.arange(6.0))
    net.part = nn.Parameter(net.whole.data[2:4])
    with no_trace(net), temporarily(net), torch.no_grad():
        net.part.zero_()
        assert net.whole[2] == 0
    assert net.whole.tolist() == [0, 1, 2, 3, 4, 5]
    with torch.no_grad():
        net.part.zero_()
    assert net.whole[3] == 0  # still one memory


def test_no_trace_names_what_changed(model):
    both = "model.layers.0.mlp.up_proj.weight, model.layers.1.self_attn"
    with pytest.raises(AssertionError, match=both), no_trace(model):
        writes(model)
    with pytest.raises(AssertionError, match="model.layers.0: hooks"), no_trace(model):
        hooks(model)
    with pytest.raises(AssertionError, match="model: training"), no_trace(model):
        flags(model)
    with pytest.raises(KeyError), no_trace(model):
        raise KeyError


def test_fingerprint_tells_models_apart():
    a = fingerprint(llama())
    assert a == fingerprint(llama())
    assert len(a) == 64
    others = [llama(tie_word_embeddings=False), llama(num_key_value_heads=4), llama().train(), llama().half()]
    others.append(freeze(llama()))
    nudged = llama()
    with torch.no_grad():
        nudged.model.norm.weight[0] = torch.nextafter(nudged.model.norm.weight[0], torch.tensor(2.0))
    found = {a, *map(fingerprint, [*others, nudged])}
    assert len(found) == len(others) + 2


def test_freeze(model):
    leaves_gradients(model)
    model.train()
    with no_trace(model), temporarily(model):
        assert freeze(model) is model
        assert not any(p.requires_grad or p.grad is not None for p in model.parameters())
        assert not any(m.training for m in model.modules())
    assert all(p.requires_grad for p in model.parameters())


@pytest.mark.parametrize("function", [freeze, clone_state, fingerprint, own_weights])
def test_wrong_arguments_are_named(function):
    with pytest.raises(TypeError, match="model"):
        function("model")
