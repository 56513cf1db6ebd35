"""Costs against torch's own flop counter and against models that were really built."""

import contextlib

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from icml26.language.cost import counting, forward_flops, kv_cache_bytes, parameters, training_flops
from icml26.language.interventions import freeze, no_trace, temporarily

transformers = pytest.importorskip("transformers")

SMOL = {
    "vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30,
    "num_attention_heads": 9, "num_key_value_heads": 3, "tie_word_embeddings": True,
}  # fmt: skip
NANO = {
    "vocab_size": 2048, "hidden_size": 192, "intermediate_size": 576, "num_hidden_layers": 8, "num_attention_heads": 12,
    "tie_word_embeddings": True,
}  # fmt: skip
PICO = {
    "vocab_size": 2048, "hidden_size": 64, "intermediate_size": 192, "num_hidden_layers": 4, "num_attention_heads": 4,
    "tie_word_embeddings": True,
}  # fmt: skip
SMALL = {
    "vocab_size": 50, "hidden_size": 24, "intermediate_size": 20, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "tie_word_embeddings": True, "max_position_embeddings": 64,
}  # fmt: skip


def config(**options):
    return transformers.LlamaConfig(**options)


def build(**changes):
    torch.manual_seed(0)
    made = config(**(SMALL | changes))
    # Plain matrix products, which torch's counter sees whatever kernel a machine has.
    return transformers.LlamaForCausalLM._from_config(made, attn_implementation="eager").eval()


def counted(call, model):
    """Operations by torch's counter, without the outer product of positions in the rotary tables."""
    with FlopCounterMode(display=False) as counter:
        call()
    rotary = counter.get_flop_counts().get("LlamaForCausalLM.model.rotary_emb", {})
    return counter.get_total_flops() - sum(rotary.values())


def ids(batch, tokens):
    return torch.randint(0, 50, (batch, tokens), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(("options", "total"), [(SMOL, 134_515_008), (NANO, None), (PICO, None), (SMALL, None)])
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("biases", [True, False])
def test_parameters_of_built_models(options, total, tied, biases):
    made = config(**(options | {"tie_word_embeddings": tied, "attention_bias": biases, "mlp_bias": biases}))
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(made)
    found = parameters(made)
    assert found.total == sum(p.numel() for p in model.parameters())
    assert found.norms == sum(p.numel() for n, p in model.named_parameters() if "norm" in n)
    assert found.mlp == sum(p.numel() for n, p in model.named_parameters() if ".mlp." in n)
    assert found.embedding == model.model.embed_tokens.weight.numel()
    assert found.head == (0 if tied else found.embedding)
    if total and tied and not biases:
        assert found.total == total


@pytest.mark.parametrize("kind", ["Qwen2", "Qwen3", "Mistral"])
def test_parameters_of_relatives(kind):
    made = getattr(transformers, f"{kind}Config")(**SMALL, head_dim=8)
    with torch.device("meta"):
        model = getattr(transformers, f"{kind}ForCausalLM")(made)
    # Qwen2 has no head_dim of its own in some versions; what it was built with counts.
    assert parameters(model.config).total == sum(p.numel() for p in model.parameters())


def test_active_parameters_of_a_mixture_made_of_a_dense_model():
    """DOT-MoE, arXiv 2606.01666: a quarter of the FFN active leaves 3.49 B of LLaMA-2-7B, 3.80 B of LLaMA-3-8B."""
    llama2 = config(vocab_size=32000, hidden_size=4096, intermediate_size=11008, num_hidden_layers=32,
                    num_attention_heads=32)  # fmt: skip
    llama3 = config(vocab_size=128256, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32,
                    num_attention_heads=32, num_key_value_heads=8)  # fmt: skip
    for made, billions, k, experts in ((llama2, 3.49, 21.5, 86), (llama3, 3.80, 28, 112)):
        p = parameters(made)
        assert (p.total - p.mlp * (1 - k / experts)) / 1e9 == pytest.approx(billions, abs=0.01)


@settings(max_examples=15, deadline=None)
@given(
    batch=st.integers(1, 3),
    tokens=st.integers(1, 9),
    heads=st.sampled_from([(4, 1), (4, 2), (4, 4), (3, 3)]),
    keep=st.integers(0, 10),
    tied=st.booleans(),
)
def test_forward_is_what_torch_counts(batch, tokens, heads, keep, tied):
    model = build(num_attention_heads=heads[0], num_key_value_heads=heads[1], tie_word_embeddings=tied)
    x = ids(batch, tokens)
    flops = forward_flops(model.config, tokens, batch=batch, logits_to_keep=keep)
    with torch.no_grad():
        assert counted(lambda: model(x, logits_to_keep=keep), model) == flops.total
    body = forward_flops(model.config, tokens, batch=batch, logits_to_keep=1)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(x, logits_to_keep=1)
    assert sum(counter.get_flop_counts()["LlamaForCausalLM.lm_head"].values()) == body.head
    assert sum(counter.get_flop_counts()["LlamaForCausalLM.model.layers.0.mlp"].values()) == body.mlp // 2


@pytest.mark.filterwarnings("ignore:`past_key_values` is deprecated:FutureWarning")  # its name in transformers 5.0
def test_with_a_cache():
    model = build()
    with torch.no_grad():
        for past, tokens in ((5, 1), (3, 4)):
            cache = transformers.DynamicCache(config=model.config)
            model(ids(2, past), past_key_values=cache, use_cache=True)
            there = torch.ones(2, past + tokens, dtype=torch.long)
            flops = counted(
                lambda: model(ids(2, tokens), past_key_values=cache, attention_mask=there, use_cache=True),  # noqa: B023
                model,
            )
            assert flops == forward_flops(model.config, tokens, batch=2, past=past).total
            keys = [(layer.keys, layer.values) for layer in cache.layers]
            assert kv_cache_bytes(model.config, past + tokens, torch.float32, batch=2) == sum(
                t.numel() * 4 for pair in keys for t in pair
            )
    # One by one a sequence costs what a causal pass over it does: each token sees itself and those before.
    steps = sum(forward_flops(model.config, 1, past=i).total for i in range(9))
    assert steps == forward_flops(model.config, 9, causal=True).total
    assert forward_flops(model.config, 9, causal=True).total < forward_flops(model.config, 9).total


def test_training_is_what_torch_counts():
    model, x = build(), ids(2, 7)
    assert counted(lambda: model(x, labels=x).loss.backward(), model) == training_flops(model.config, 7, batch=2).total
    freeze(model)

    def prompt_tuning():
        model(inputs_embeds=torch.randn(2, 7, 24, requires_grad=True), labels=x).loss.backward()

    assert counted(prompt_tuning, model) == training_flops(model.config, 7, batch=2, frozen=True).total
    plain, more = (training_flops(model.config, 7, recompute=r) for r in (False, True))
    assert more.total - plain.total == forward_flops(model.config, 7).total - plain.head // 3


def test_the_6_nd_rule():
    """6 N D for training, N the parameters with the tied embedding as head: attention adds little at 512 tokens."""
    made = config(**SMOL)
    ratio = training_flops(made, 512).total / (6 * 134_515_008 * 512)
    assert 1 < ratio < 1.3
    assert training_flops(made, 512).total - training_flops(made, 512).attention == pytest.approx(
        6 * 134_515_008 * 512, rel=1e-3
    )
    assert kv_cache_bytes(made, 1024) == 2 * 30 * 3 * 64 * 1024 * 2


def test_counting_is_what_torch_counts():
    model = build()
    with no_trace(model), counting(model) as cost, torch.no_grad():
        flops = counted(lambda: model(ids(3, 7), logits_to_keep=1), model)
    assert (cost.forwards, cost.sequences, cost.tokens, cost.backwards) == (1, 3, 21, 0)
    assert cost.flops == flops
    assert 0 < cost.seconds < 60
    trained = build()
    with counting(trained) as cost:
        flops = counted(lambda: trained(ids(3, 7), labels=ids(3, 7)).loss.backward(), trained)
    assert (cost.forwards, cost.backwards, cost.flops) == (1, 1, flops)
    frozen = freeze(build())
    with counting(frozen) as cost:
        embedded = torch.randn(2, 7, 24, requires_grad=True)
        flops = counted(lambda: frozen(inputs_embeds=embedded).logits.sum().backward(), frozen)
    assert (cost.sequences, cost.tokens, cost.flops) == (2, 14, flops)


def test_counting_generation_the_body_and_changed_models():
    model = freeze(build())
    x, there = ids(2, 5), torch.ones(2, 5, dtype=torch.long)
    with counting(model) as cost:
        flops = counted(
            lambda: model.generate(x, attention_mask=there, max_new_tokens=4, min_new_tokens=4, do_sample=False), model
        )
    assert (cost.forwards, cost.sequences, cost.tokens) == (4, 8, 2 * (5 + 3))
    assert cost.flops == flops
    with counting(model) as cost, torch.no_grad():
        flops = counted(lambda: model.model(x), model)
    body = forward_flops(model.config, 5, batch=2)
    assert cost.forwards == 1
    assert cost.flops == body.total - body.head
    with temporarily(model):
        model.model.layers[0].mlp.up_proj = nn.Identity()
        model.model.layers[0].mlp = nn.Linear(24, 24)
        with counting(model) as cost, torch.no_grad():
            flops = counted(lambda: model(x), model)
        assert cost.flops == flops < body.total


def fails(model, x):
    with contextlib.suppress(KeyError), counting(model) as cost:
        model(x)
        raise KeyError
    return cost


def test_counting_nests_and_ends():
    model, x = freeze(build()), ids(1, 4)
    with no_trace(model):
        with counting(model) as outer:
            model(x)
            with counting(model) as inner:
                model(x)
            broken = fails(model, x)
        model(x)
    assert (outer.forwards, inner.forwards, broken.forwards) == (3, 1, 1)
    assert outer.flops == 3 * inner.flops == 3 * broken.flops
    assert outer.seconds >= inner.seconds + broken.seconds
    with counting(model.model) as cost:
        model(x)
    assert cost.forwards == 1
    trained = build()
    with counting(trained) as cost:
        loss = trained(x, labels=x).loss
    before = cost.flops
    loss.backward()  # after the block: not counted
    assert (cost.backwards, cost.flops) == (0, before)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c: forward_flops(c, -1), "tokens: got -1"),
        (lambda c: forward_flops(c, 3, batch=-2), "batch: got -2"),
        (lambda c: forward_flops(c, 3, past=-1), "past: got -1"),
        (lambda c: forward_flops(c, 3, logits_to_keep=-1), "logits_to_keep: got -1"),
        (lambda c: kv_cache_bytes(c, -1), "tokens: got -1"),
        (lambda c: parameters(object()), "config: object has no hidden_size"),
        (lambda c: parameters(transformers.GPT2Config()), "config: GPT2Config has no intermediate_size"),
        (lambda c: parameters(transformers.GPTNeoXConfig()), "config: model_type is 'gpt_neox'"),
        (lambda c: counting(nn.Linear(2, 2)).__enter__(), "model: got Linear"),
    ],
)
def test_wrong_arguments_are_named(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call(config(**SMALL))


def test_a_layer_called_by_keyword_counts():
    model = build()
    states = torch.zeros(1, 3, model.config.hidden_size)
    with counting(model) as by_name:
        model.lm_head(input=states)
    with counting(model) as by_place:
        model.lm_head(states)
    assert by_name.flops == by_place.flops > 0
