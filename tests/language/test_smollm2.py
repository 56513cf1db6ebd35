"""The carried SmolLM2 itself: the shape, the logits, the tokenizer, the hidden grid."""

import gguf
import numpy as np
import pytest
import torch
import transformers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from icml26.language import gguf_llama, models, smollm2
from icml26.language.pins import COMMAND

PROMPT = "The capital of France is"
# The logits after PROMPT of every 1536th token, float32, by the GGUF loader of transformers 5.24.0, torch 2.13.0.
FIRST_LOGITS = (
    1.6136, -2.9072, -5.3628, 1.8535, 1.2524, 0.0379, 1.261, -0.4465, 4.7032, 4.7165, 1.2824, -3.2414, -4.5684, 0.3834,
    -7.9033, 4.497, -0.8596, -2.0025, 1.0194, -2.4737, -7.2223, -6.0083, 0.3889, -5.0714, -0.9843, -2.7723, -7.6629,
    2.2322, -1.0459, -1.1024, -5.3184, -5.7735,
)  # fmt: skip

Loaded = tuple[transformers.LlamaForCausalLM, transformers.PreTrainedTokenizerFast]


@pytest.fixture(scope="module")
def real() -> Loaded:
    """The model as every chapter loads it."""
    if smollm2.converted() is None:
        pytest.skip(f"SmolLM2 is not on this machine: run {COMMAND}")
    return models.load_lm("smollm2", dtype="float32", device="cpu")


@pytest.fixture(scope="module")
def reader(real: Loaded) -> gguf.GGUFReader:
    return gguf_llama.open_gguf(smollm2.gguf_file())


def logits(model: torch.nn.Module, tokenizer: transformers.PreTrainedTokenizerBase, text: str) -> torch.Tensor:
    with torch.no_grad():
        return model(**tokenizer(text, return_tensors="pt")).logits


def test_its_shape(real: Loaded) -> None:
    model, tokenizer = real
    config = model.config
    assert type(model) is transformers.LlamaForCausalLM
    assert config.num_hidden_layers * config.num_attention_heads == 270
    assert (config.num_key_value_heads, config.hidden_size, config.intermediate_size) == (3, 576, 1536)
    assert (config.vocab_size, config.max_position_embeddings) == (49152, 8192)
    assert sum(p.numel() for p in model.parameters()) == 134_515_008  # as its model card's files have
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert all(p.requires_grad for p in model.parameters())
    assert not model.training
    assert len(tokenizer) == config.vocab_size
    models.check_padding(tokenizer)
    assert tokenizer.pad_token_id == 2


def test_first_token_logits(real: Loaded) -> None:
    found = logits(*real, PROMPT)[0, -1]
    np.testing.assert_allclose(found[::1536].numpy(), FIRST_LOGITS, atol=2e-3)
    assert real[1].decode(found.argmax()) == " Paris"


@pytest.mark.slow
def test_its_logits_are_those_of_the_gguf_file(real: Loaded) -> None:
    """As transformers reads the file itself: exactly equal."""
    source = smollm2.gguf_file()
    theirs = transformers.AutoModelForCausalLM.from_pretrained(
        source.parent, gguf_file=source.name, dtype=torch.float32
    )
    assert torch.equal(logits(*real, PROMPT), logits(theirs, real[1], PROMPT))
    mine, other = real[0].state_dict(), theirs.state_dict()
    assert mine.keys() == other.keys()
    assert all(torch.equal(mine[name], other[name]) for name in mine)


def test_it_answers(real: Loaded) -> None:
    model, tokenizer = real
    asked = [{"role": "user", "content": "What is the capital of France?"}]
    ids = tokenizer.apply_chat_template(asked, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    out = model.generate(**ids, max_new_tokens=12, do_sample=False)
    assert "Paris" in tokenizer.decode(out[0, ids["input_ids"].shape[1] :])


def test_the_chat_template(real: Loaded, reader: gguf.GGUFReader) -> None:
    assert reader.get_field("tokenizer.chat_template").contents() == smollm2.CHAT_TEMPLATE == real[1].chat_template
    text = real[1].apply_chat_template(
        [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
        tokenize=False,
        add_generation_prompt=True,
    )
    assert text == ("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
    ids = real[1](text)["input_ids"]
    assert ids.count(1) == 3
    assert ids.count(2) == 2


# No token of the model begins with these bytes: six control characters and what Unicode has not assigned.
UNKNOWN = "\x04\x06\x13\x14\x16\x1d"
KNOWN = st.characters(exclude_categories=["Cs"], exclude_characters=UNKNOWN).filter(
    lambda c: not "\U00040000" <= c <= "\U000bffff"
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(KNOWN))
def test_text_survives_the_tokenizer(real: Loaded, text: str) -> None:
    tokenizer = real[1]
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_all_of_assigned_unicode_survives_the_tokenizer(real: Loaded) -> None:
    """The alphabets one by one, a sample of planes 0-3 and 14-16, and what the vocabulary lacks is what we say."""
    tokenizer = real[1]
    code = [*range(0x3000), *range(0x3000, 0xD800, 29), *range(0xE000, 0x40000, 29), *range(0xC0000, 0x110000, 97)]
    lost = set()
    for start in range(0, len(code), 1000):
        part = [chr(c) for c in code[start : start + 1000]]
        if tokenizer.decode(tokenizer("|".join(part))["input_ids"]) != "|".join(part):
            lost |= {c for c in part if tokenizer.decode(tokenizer(c)["input_ids"]) != c}
    assert lost == set(UNKNOWN)
    assert tokenizer("\U00040000")["input_ids"] != []  # its last bytes remain
    assert tokenizer.decode(tokenizer("\U00040000")["input_ids"]) != "\U00040000"


def test_digits_are_tokens_of_their_own(real: Loaded) -> None:
    """Also after spaces, where byte-level BPE alone would give the last space to the digit."""
    pieces = {text: real[1].convert_ids_to_tokens(real[1](text)["input_ids"]) for text in ("2048", "a  4", " 7 x")}
    assert pieces == {"2048": list("2048"), "a  4": ["a", "ĠĠ", "4"], " 7 x": ["Ġ", "7", "Ġx"]}


def test_the_hidden_grid(real: Loaded) -> None:
    """Blocks of 32 along the input axis take 16 equally spaced values; wider blocks and the columns do not."""
    layer = real[0].model.layers[7]
    for weight in (layer.self_attn.q_proj.weight, layer.mlp.down_proj.weight):
        blocks = weight.detach().double().reshape(-1, 32)[:4000]
        low, high = blocks.amin(1, keepdim=True), blocks.amax(1, keepdim=True)
        values = [len(block.unique()) for block in blocks]
        assert max(values) <= 16
        full = torch.tensor(values) > 8  # enough values that the step shows
        steps = torch.stack([block.unique().diff().min() for block in blocks[full]])[:, None]
        inside = (blocks - low)[full] / steps
        assert (inside - inside.round()).abs().max() < 1e-3
        assert ((high - low)[full] / steps).max() < 15.5
        assert max(len(block.unique()) for block in weight.detach().reshape(-1, 64)[:200]) > 16
        assert max(len(block.unique()) for block in weight.detach().T.reshape(-1, 32)[:200]) > 16
    head = real[0].lm_head.weight.detach().double()[1000:1200].reshape(-1, 32)
    inside = head / head.abs().amax(1, keepdim=True) * 127
    assert (inside - inside.round()).abs().max() < 1e-3
    assert max(len(block.unique()) for block in real[0].model.norm.weight.detach().reshape(-1, 32)) > 16


def test_changing_a_loaded_model_does_not_change_the_copy(real: Loaded) -> None:
    model, _ = models.load_lm("smollm2", dtype="float32", device="cpu")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    smollm2.verify()
    assert real[0].lm_head.weight.abs().sum() > 0
