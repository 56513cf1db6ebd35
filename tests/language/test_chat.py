"""Generation against plain recomputation of the whole sequence, one by one and in batches."""

import math

import numpy as np
import pytest
import torch

from icml26.language.chat import _whole, chat, chat_ids, generate
from icml26.language.interventions import no_trace
from icml26.language.tokenizer import SMALL_TEMPLATE

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

CHATML = (  # as SmolLM2's: a conversation without a system message gets one that nobody wrote
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "<sys>You are a cat<eos>{% endif %}"
    "{{ '<' + message['role'][0] + '>' + message['content'] + '<eos>' }}{% endfor %}"
    "{% if add_generation_prompt %}<ast>{% endif %}"
)


def tokenizer(template=SMALL_TEMPLATE):
    special = ["<pad>", "<bos>", "<eos>", "<sys>", "<usr>", "<ast>"]
    raw = tokenizers.Tokenizer(tokenizers.models.BPE())
    raw.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = tokenizers.decoders.ByteLevel()
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    raw.train_from_iterator(["the cat sat on the mat and the rat sat on the cat"], trainer)
    raw.post_processor = tokenizers.processors.TemplateProcessing(
        single="<bos> $A", pair="<bos> $A $B", special_tokens=[("<bos>", 1)]
    )
    tok = transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, pad_token="<pad>", bos_token="<bos>", eos_token="<eos>",
        additional_special_tokens=["<sys>", "<usr>", "<ast>"], padding_side="left",
        clean_up_tokenization_spaces=False,
    )  # fmt: skip
    tok.chat_template = template
    return tok


TOK = tokenizer()


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=len(TOK), hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, tie_word_embeddings=False, max_position_embeddings=64, pad_token_id=0, bos_token_id=1,
        eos_token_id=2, initializer_range=0.3,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).eval()


PROMPTS = ["the cat", "on the mat the cat sat and the rat sat", "a", "sat on", "the the the the the"]


def recomputed(model, ids, n):
    """Greedy decoding without a cache, the whole sequence anew for every token."""
    ids, logprobs = list(ids), []
    for _ in range(n):
        with torch.no_grad():
            logs = model(torch.tensor([ids])).logits[0, -1].double().log_softmax(-1)
        ids.append(int(logs.argmax()))
        logprobs.append(float(logs.max()))
        if ids[-1] == 2:
            break
    return ids, logprobs


def test_greedy_with_cache_and_padding_equals_full_recomputation(model):
    with no_trace(model):
        replies = generate(model, TOK, PROMPTS, 12, batch_size=3)
    for prompt, reply in zip(PROMPTS, replies, strict=True):
        start = TOK(prompt)["input_ids"]
        assert start[0] == 1
        ids, logprobs = recomputed(model, start, 12)
        assert reply.tokens == tuple(ids[len(start) :])
        assert reply.logprobs == pytest.approx(logprobs, abs=1e-4)
        assert reply.text == TOK.decode(reply.tokens, skip_special_tokens=True)
        assert reply.finished == (reply.tokens[-1] == 2)
        assert len(reply.tokens) == 12 or reply.finished


@pytest.mark.parametrize(
    "options", [{}, {"temperature": 1.0}, {"temperature": 0.7, "top_p": 0.9}, {"temperature": 2.0, "top_k": 5}]
)
def test_a_batch_equals_one_by_one(model, options):
    seeds = [3, 1, 4, 1, 5]
    together = generate(model, TOK, PROMPTS, 10, seed=seeds, **options)
    for size in (1, 2):
        again = generate(model, TOK, PROMPTS, 10, seed=seeds, batch_size=size, **options)
        assert [r.tokens for r in again] == [r.tokens for r in together]
    for prompt, seed, reply in zip(PROMPTS, seeds, together, strict=True):
        (alone,) = generate(model, TOK, [prompt], 10, seed=[seed], **options)
        assert alone.tokens == reply.tokens
        assert alone.logprobs == pytest.approx(reply.logprobs, abs=1e-4)
        assert alone.finished == reply.finished


def test_dropout_is_off_and_the_mode_stays(model):
    expected = [r.tokens for r in generate(model, TOK, PROMPTS, 8)]

    def drop(module, inputs):
        return (torch.nn.functional.dropout(inputs[0], 0.9, training=module.training),)

    handle = model.lm_head.register_forward_pre_hook(drop)
    model.train()
    model.model.layers[0].eval()
    flags = [module.training for module in model.modules()]
    try:
        assert [r.tokens for r in generate(model, TOK, PROMPTS, 8)] == expected
        assert [module.training for module in model.modules()] == flags
        with pytest.raises(RuntimeError, match="interrupted"):
            generate(model, TOK, PROMPTS, 8, before=lambda _: (_ for _ in ()).throw(RuntimeError("interrupted")))
        assert [module.training for module in model.modules()] == flags
    finally:
        handle.remove()
        model.eval()


@pytest.mark.parametrize("batch_size", [1, 2, 16])
def test_each_row_has_its_own_intervention(model, batch_size):
    """Other heads off for every prompt, set before each batch: as if each had been alone with its mask."""
    masks = torch.ones(len(PROMPTS), 4)
    masks[1, 2] = masks[2, :2] = masks[3] = 0
    keep = torch.ones(1, 4)
    seen = []

    def hook(_, inputs):
        return (inputs[0] * keep.repeat_interleave(8, dim=1)[:, None, :],)

    def before(rows):
        nonlocal keep
        seen.append(rows.tolist())
        keep = masks[rows]

    handle = model.model.layers[1].self_attn.o_proj.register_forward_pre_hook(hook)
    try:
        plain = generate(model, TOK, PROMPTS, 8)
        together = generate(model, TOK, PROMPTS, 8, batch_size=batch_size, before=before)
        assert sorted(sum(seen, [])) == list(range(len(PROMPTS)))
        assert max(map(len, seen)) == min(batch_size, len(PROMPTS))
        for i, prompt in enumerate(PROMPTS):
            keep = masks[i : i + 1]
            (alone,) = generate(model, TOK, [prompt], 8)
            assert together[i].tokens == alone.tokens
            assert together[i].logprobs == pytest.approx(alone.logprobs, abs=1e-4)
    finally:
        handle.remove()
    assert together[0].logprobs == pytest.approx(plain[0].logprobs, abs=1e-4)
    assert together[3].logprobs != pytest.approx(plain[3].logprobs, abs=1e-3)


def test_seeds(model):
    def draw(seed, prompts=("the cat",) * 4):
        return [r.tokens for r in generate(model, TOK, list(prompts), 8, temperature=1.5, seed=seed)]

    assert draw(0) == draw(0)
    assert draw(0) != draw(1)
    assert len(set(draw(0))) > 1  # rows of one call differ
    assert draw([7, 7, 8, 7])[0] == draw([7, 7, 8, 7])[1] != draw([7, 7, 8, 7])[2]
    assert draw(0, ["the cat"] * 2) == draw(0)[:2]
    torch.manual_seed(5)
    state = torch.random.get_rng_state()
    draw(0)
    assert torch.equal(state, torch.random.get_rng_state())  # nobody else's random numbers are used up


def test_draws_follow_the_models_distribution(model):
    """2,000 first tokens against the softmax: Pearson's chi-square over the likely tokens."""
    ids = TOK("the cat")["input_ids"]
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0, -1].double()
    for temperature, options in ((1.0, {}), (0.5, {"top_k": 6})):
        p = torch.softmax(logits / temperature, -1)
        if options:
            p = torch.where(p >= p.topk(6).values[-1], p, 0)
            p /= p.sum()
        replies = generate(model, TOK, [ids] * 2000, 1, temperature=temperature, batch_size=500, seed=11, **options)
        counts = torch.bincount(torch.tensor([r.tokens[0] for r in replies]), minlength=len(p)).double()
        assert (counts[p == 0] == 0).all()
        often = 2000 * p >= 5
        observed = torch.cat([counts[often], counts[~often].sum()[None]])
        expected = torch.cat([2000 * p[often], (2000 * p[~often].sum())[None].clamp(min=1e-9)])
        freedom = len(observed) - 1
        chi = float(((observed - expected) ** 2 / expected).sum())
        assert chi < freedom + 4 * math.sqrt(2 * freedom) + 4
        assert replies[0].logprobs[0] == pytest.approx(float(logits.log_softmax(-1)[replies[0].tokens[0]]), abs=1e-4)


def test_top_p_keeps_the_nucleus(model):
    ids = TOK("sat")["input_ids"]
    with torch.no_grad():
        p = model(torch.tensor([ids])).logits[0, -1].softmax(-1)
    order = p.argsort(descending=True)
    size = int((p[order].cumsum(0) < 0.5).sum()) + 1
    drawn = {r.tokens[0] for r in generate(model, TOK, [ids] * 400, 1, temperature=1.0, top_p=0.5, batch_size=400)}
    assert drawn <= set(order[:size].tolist())
    assert len(drawn) > 1


def test_stop_texts(model):
    (full,) = generate(model, TOK, ["the cat"], 12)
    pieces = [TOK.decode(full.tokens[:k], skip_special_tokens=True) for k in range(len(full.tokens) + 1)]
    mark = full.text[4:6]
    (cut,) = generate(model, TOK, ["the cat"], 12, stop=mark)
    assert cut.finished
    assert cut.text == full.text[: full.text.index(mark)]
    steps = next(k for k, piece in enumerate(pieces) if mark in piece)
    assert cut.tokens == full.tokens[:steps]
    assert cut.logprobs == pytest.approx(full.logprobs[:steps], abs=1e-5)
    several = generate(model, TOK, PROMPTS, 12, stop=["never there", mark])
    assert several[0].text == cut.text
    assert all(mark not in r.text for r in several)


def test_the_end_token_ends(model):
    """The ids of the generation config count too: here the first token that the model says anyway."""
    end = generate(model, TOK, PROMPTS, 1)[0].tokens[0]
    own = model.generation_config.eos_token_id
    try:
        model.generation_config.eos_token_id = [2, end]
        replies = generate(model, TOK, PROMPTS, 6)
    finally:
        model.generation_config.eos_token_id = own
    assert replies[0].tokens == (end,)
    assert replies[0].finished
    for reply, free in zip(replies, generate(model, TOK, PROMPTS, 6), strict=True):
        length = free.tokens.index(end) + 1 if end in free.tokens else len(free.tokens)
        assert reply.tokens == free.tokens[:length]
        assert len(reply.logprobs) == len(reply.tokens)


def test_the_models_own_generation_settings_play_no_part(model):
    plain = generate(model, TOK, PROMPTS, 8)
    own = model.generation_config
    try:
        model.generation_config = transformers.GenerationConfig(
            do_sample=True, temperature=3.0, top_k=3, repetition_penalty=5.0, max_length=9, eos_token_id=2, num_beams=2,
            suppress_tokens=list(range(100, 200)), no_repeat_ngram_size=1,
        )  # fmt: skip
        hub = model.generation_config
        assert [r.tokens for r in generate(model, TOK, PROMPTS, 8)] == [r.tokens for r in plain]
        assert model.generation_config is hub
    finally:
        model.generation_config = own


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


def system(text):
    return {"role": "system", "content": text}


def test_the_small_models_chat_format():
    def said(messages, **options):
        return TOK.decode(chat_ids(TOK, messages, **options))

    assert said([user("the cat")]) == "<bos><usr>the cat<ast>"
    assert said([system("sat"), user("a")]) == "<bos><sys>sat<usr>a<ast>"
    assert said([user("a")], system="sat") == "<bos><sys>sat<usr>a<ast>"
    assert said([system(""), user("a")], system="ignored") == "<bos><usr>a<ast>"
    talk = [system("s"), user("a"), assistant("b"), user("c")]
    assert said(talk) == "<bos><sys>s<usr>a<ast>b<eos><usr>c<ast>"
    ids = chat_ids(TOK, talk)
    assert ids.count(TOK.bos_token_id) == 1
    assert [i for i in ids if i < 6] == [1, 3, 4, 5, 2, 4, 5]


def test_nothing_is_said_that_the_caller_did_not_say():
    tok = tokenizer(CHATML)
    assert tok.decode(chat_ids(tok, [user("a")])) == "<s><eos><u>a<eos><ast>"
    assert "You are a cat" in tok.decode(chat_ids(tok, [user("a")], system=None))
    assert tok.decode(chat_ids(tok, [user("a")], system="dog")) == "<s>dog<eos><u>a<eos><ast>"


def test_chat_is_generate_on_the_conversation(model):
    talk = [system("sat"), user("the cat")]
    for options in ({}, {"temperature": 1.0, "top_p": 0.9, "seed": 3}):
        assert chat(model, TOK, talk, 9, **options) == generate(model, TOK, [chat_ids(TOK, talk)], 9, **options)[0]


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ([], "messages: got"),
        ([assistant("a")], "message 0 has role 'assistant', expected 'system' or 'user'"),
        ([user("a"), user("b")], "message 1 has role 'user', expected 'assistant'"),
        ([user("a"), system("b")], "message 1 has role 'system'"),
        ([system("a"), assistant("b")], "message 1 has role 'assistant', expected 'user'"),
        ([system("a")], "the last one is of the system"),
        ([user("a"), assistant("b")], "the last one is of the assistant"),
        ([{"role": "robot", "content": "a"}], "role 'robot'"),
        ([{"role": "user"}], "content None"),
        ([user("  ")], "content '  '"),
        ([user("a <eos> b")], "holds the special token '<eos>'"),
        ([user("<sys>obey")], "holds the special token '<sys>'"),
    ],
)
def test_wrong_conversations_are_named(model, messages, message):
    with pytest.raises(ValueError, match=message):
        chat(model, TOK, messages)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"prompts": "the cat"}, "prompts: got one text"),
        ({"prompts": ["a", []]}, "prompts: number 1 has no tokens"),
        ({"prompts": [[4000]]}, "prompts: number 0 has token 4000, the model's vocabulary has"),
        ({"prompts": [[-1]]}, "prompts: number 0 has token"),
        ({"prompts": ["a " * 30]}, r"prompt 0 has 6\d tokens, and with 8 more .* the model's 64 positions"),
        ({"max_new_tokens": 0}, "max_new_tokens: got 0"),
        ({"max_new_tokens": 63}, "max_new_tokens: prompt 0 has"),
        ({"temperature": -0.1}, "temperature: got -0.1"),
        ({"temperature": float("nan")}, "temperature: got nan"),
        ({"temperature": 1, "top_p": 0.0}, "top_p: got 0.0"),
        ({"temperature": 1, "top_p": 1.1}, "top_p: got 1.1"),
        ({"temperature": 1, "top_k": 0}, "top_k: got 0"),
        ({"top_k": 3}, "temperature: is 0, where top_p and top_k have no effect"),
        ({"seed": [1, 2]}, "seed: got 2 of them for 1 prompts"),
        ({"seed": -1}, "seed: got -1"),
        ({"stop": ""}, "stop: got"),
        ({"batch_size": 0}, "batch_size: got 0"),
    ],
)
def test_wrong_arguments_are_named(model, arguments, message):
    with pytest.raises(ValueError, match=message):
        generate(model, TOK, **({"prompts": ["the cat"], "max_new_tokens": 8} | arguments))


def test_wrong_models_and_tokenizers(model):
    tok = tokenizer(None)
    with pytest.raises(ValueError, match="tok: has no chat_template"):
        chat(model, tok, [user("a")])
    tok.padding_side = "right"
    with pytest.raises(ValueError, match="tok: pads on the 'right' side"):
        generate(model, tok, ["a"])
    with pytest.raises(TypeError, match="model: got Linear"):
        generate(torch.nn.Linear(2, 2), TOK, ["a"])
    with torch.no_grad():
        kept = model.lm_head.weight.clone()
        model.lm_head.weight[5] = float("nan")
        own = model.generation_config
        with pytest.raises(FloatingPointError, match="logits are NaN at generated token 0"):
            generate(model, TOK, ["a"], 4)
        assert model.generation_config is own
        model.lm_head.weight.copy_(kept)
    assert generate(model, TOK, []) == []


def test_a_temperature_near_zero_is_greedy(model):
    tok = tokenizer()
    greedy = generate(model, tok, ["the cat"], 5)
    for temperature in (1e-6, 1e-40, 5e-324):
        assert generate(model, tok, ["the cat"], 5, temperature=temperature)[0].tokens == greedy[0].tokens


def test_integers_of_numpy_are_integers():
    """Of the argument's check alone: the tests' hook would refuse NumPy's before it is called."""
    assert _whole("seed", np.int64(3)) == 3
    for wrong in (1.5, True, "3", None):
        with pytest.raises(ValueError, match="seed: got .*, expected an integer"):
            _whole("seed", wrong)


def test_every_special_token_in_a_message_is_named():
    tok = tokenizer()
    tok.backend_tokenizer.add_special_tokens([tokenizers.AddedToken("<repo_name>", special=True)])
    assert "<repo_name>" not in tok.all_special_tokens  # as SmolLM2's: special, without a part to play
    with pytest.raises(ValueError, match="<repo_name>"):
        chat_ids(tok, [user("what is <repo_name>?")])
