"""Evaluation by likelihood against token-by-token computation, tables with known answers and wilful damage."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import stats

pytest.importorskip("transformers", reason="pip install 'icml26[language]'")

import transformers

from icml26.language import evaluation, skills
from icml26.language.chat import chat_ids
from icml26.language.evaluation import bootstrap, evaluate, log_likelihoods, measure, score, wilson
from icml26.language.prepared import encode, prepare
from icml26.language.skills import Item
from icml26.language.tokenizer import small_tokenizer

TOK = small_tokenizer()
ITEMS = [
    Item("the capital of France is", " Paris", (" Paris", " Rome"), (" paris",)),
    Item("reverse: 4 8 1 =", " 1 8 4", (" 1 8 4", " 4 8 1")),
    Item("a", " dog", (" dog", " cat", " antelope")),
    Item("one cat, two", " cats", (" cats", " dogs"), (" many cats", " felines")),
]


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=2048,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        tie_word_embeddings=True,
        initializer_range=0.3,
    )
    return transformers.LlamaForCausalLM(config).eval()


class Table(torch.nn.Module):
    """Logits of the next token that depend on the last token alone."""

    def __init__(self, logits):
        super().__init__()
        self.logits = torch.nn.Parameter(logits)
        self.config = SimpleNamespace(max_position_embeddings=64, vocab_size=len(logits))

    def forward(self, input_ids, **_):
        return SimpleNamespace(logits=self.logits[input_ids])


def by_hand(model, prompt, answer):
    """Token after token, each from its own unpadded forward pass over all that comes before it."""
    start, ids = TOK(prompt)["input_ids"], TOK(prompt + answer)["input_ids"]
    total, likeliest = 0.0, []
    for at in range(len(start), len(ids)):
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([ids[:at]])).logits[0, -1].double()
        total += float(logits.log_softmax(0)[ids[at]])
        likeliest.append(int(logits.argmax()) == ids[at])
    return total, likeliest


@pytest.mark.parametrize("batch_size", [1, 3, 32])
def test_all_modes_equal_the_computation_by_hand(model, batch_size):
    expected = [by_hand(model, item.prompt, item.answer) for item in ITEMS]
    result = evaluate(model, TOK, ITEMS, mode="logprob", batch_size=batch_size)
    np.testing.assert_allclose(result.totals, [total for total, _ in expected], atol=1e-4)
    lengths = [len(likeliest) for _, likeliest in expected]
    np.testing.assert_allclose(result.values, result.totals / lengths)
    assert max(lengths) > 1
    rights = [[by_hand(model, item.prompt, text)[1] for text in item.right] for item in ITEMS]
    exact = evaluate(model, TOK, ITEMS, mode="exact", batch_size=batch_size)
    first = evaluate(model, TOK, ITEMS, mode="first", batch_size=batch_size)
    assert exact.values.tolist() == [any(all(hits) for hits in item) for item in rights]
    assert first.values.tolist() == [any(hits[0] for hits in item) for item in rights]
    totals = [[by_hand(model, item.prompt, text)[0] for text in item.choices] for item in ITEMS]
    choice = evaluate(model, TOK, ITEMS, mode="choice", batch_size=batch_size)
    assert choice.values.tolist() == [np.argmax(row) == 0 for row in totals]


def test_greedy_continuation_is_exactly_right(model):
    """Whatever the model says next is its own right answer; the second best is not."""
    prompt = "a"
    ids = TOK(prompt)["input_ids"]
    with torch.no_grad():
        best, second = model(input_ids=torch.tensor([ids])).logits[0, -1].topk(2).indices.tolist()
    prepared = prepare(TOK, [Item(prompt, " dog")])
    for token, right in ((best, True), (second, False)):
        batch = prepared.batches[0]
        batch.targets[:] = token
        assert measure(model, prepared).exact.tolist() == [[right]]


def test_one_wrong_token_spoils_exact_but_not_first():
    logits = torch.zeros(2048, 2048)
    (_, answer), *_ = encode(TOK, ["reverse: 4 8 1 ="], [" 1 8 4"])
    start = TOK("reverse: 4 8 1 =")["input_ids"][-1]
    logits[start, answer[0]] = 5.0
    item = [Item("reverse: 4 8 1 =", " 1 8 4")]
    assert evaluate(Table(logits), TOK, item, mode="first").mean == 1
    assert evaluate(Table(logits), TOK, item, mode="exact").mean == 0


def test_accepted_answers_count_but_not_for_the_log_probability():
    logits = torch.zeros(2048, 2048)
    (_, [token]), *_ = encode(TOK, ["a"], [" dog"])
    logits[TOK("a")["input_ids"][-1], token] = 9.0
    other = Item("a", " cat", (), (" dog",))
    assert evaluate(Table(logits), TOK, [other], mode="exact").mean == 1
    assert evaluate(Table(logits), TOK, [other], mode="first").mean == 1
    assert evaluate(Table(logits), TOK, [other], mode="logprob").mean < -5


def test_uniform_model_knows_nothing():
    uniform = Table(torch.zeros(2048, 2048))
    result = evaluate(uniform, TOK, ITEMS, mode="logprob")
    np.testing.assert_allclose(result.values, -np.log(2048), rtol=1e-6)
    tied = [Item("a", " dog", (" dog", " cat"))]
    assert evaluate(uniform, TOK, tied, mode="choice").mean == 0  # a tie is no preference


def test_token_ids_are_taken_as_they_are(model):
    texts = [(item.prompt, item.answer) for item in ITEMS]
    ids = encode(TOK, *zip(*texts, strict=True))
    assert log_likelihoods(model, TOK, ids).total.tolist() == log_likelihoods(model, TOK, texts).total.tolist()
    assert encode(TOK, *zip(*ids, strict=True)) == ids
    # One of each: an answer given as text gets no <bos>, a prompt given as text does.
    mixed = [(ids[0][0], texts[0][1]), (texts[1][0], ids[1][1])]
    assert encode(TOK, *zip(*mixed, strict=True)) == ids[:2]


def test_a_conversation_has_one_bos(model):
    prompt = chat_ids(TOK, [{"role": "user", "content": "Where is the dog?"}])
    (pair,) = encode(TOK, [prompt], ["At home."])
    assert pair[0].count(TOK.bos_token_id) == 1
    found = log_likelihoods(model, TOK, [(prompt, "At home.")])
    with torch.no_grad():
        logs = model(input_ids=torch.tensor([[*pair[0], *pair[1]]])).logits[0].log_softmax(-1)
    expected = sum(float(logs[len(pair[0]) - 1 + i, token]) for i, token in enumerate(pair[1]))
    assert found.total[0] == pytest.approx(expected, abs=1e-4)
    assert found.tokens.tolist() == [len(pair[1])]
    with pytest.raises(ValueError, match="prompt: '<bos>.*which the tokenizer adds itself"):
        log_likelihoods(model, TOK, [(TOK.decode(prompt), "At home.")])


def test_padding_changes_nothing(model):
    long = Item("one two three four five six seven eight nine ten and then again one two three", " four")
    alone = [evaluate(model, TOK, [item], mode="logprob").totals[0] for item in (*ITEMS, long)]
    together = evaluate(model, TOK, [*ITEMS, long], mode="logprob", batch_size=8)
    np.testing.assert_allclose(together.totals, alone, atol=1e-4)


@pytest.mark.slow
def test_padding_changes_nothing_in_the_real_model(monkeypatch):
    models = pytest.importorskip("icml26.language.models", reason="no model loader")
    monkeypatch.setenv("ICML26_OFFLINE", "1")
    try:
        real, tok = models.load_lm("smollm2", dtype="float32", device="cpu")
    except (FileNotFoundError, OSError, ImportError) as missing:
        pytest.skip(f"SmolLM2 is not in the cache: {missing}")
    mixed = [item for name in ("agree", "past", "induct") for item in skills.items(skills.REAL[name], 2, 1_000_000)]
    alone = [evaluate(real, tok, [item], mode="logprob").totals[0] for item in mixed]
    together = evaluate(real, tok, mixed, mode="logprob", batch_size=6)
    np.testing.assert_allclose(together.totals, alone, atol=1e-4)
    # It forms most past tenses (98 of 100 when measured); a model that was loaded wrongly forms none.
    assert evaluate(real, tok, skills.REAL["past"], n=12, half="test").mean > 0.5


def test_order_of_batches_is_fixed_and_covers_every_candidate_once(model):
    drawn = skills.items(skills.SMALL["reverse"], 20, 1_000_000) + ITEMS
    one, two = (prepare(TOK, drawn, "exact", batch_size=7) for _ in range(2))
    for a, b in zip(one.batches, two.batches, strict=True):
        assert torch.equal(a.input_ids, b.input_ids)
        assert torch.equal(a.candidates, b.candidates)
    seen = sorted(int(c) for batch in one.batches for c in batch.candidates)
    assert seen == list(range(one.candidates))
    widths = [batch.input_ids.shape[1] for batch in one.batches]
    assert widths == sorted(widths)  # little padding


def test_candidates_with_the_same_tokens_share_a_row():
    prepared = prepare(TOK, [Item("a", " dog", (" dog", " cat"))], "choice")
    (batch,) = prepared.batches
    assert len(batch.input_ids) == 1
    assert len(batch.candidates) == 2


def test_copies_side_by_side_equal_one_after_another(model):
    """What chapter 11 does: another set of heads off in every copy, in the rows of the same batch."""
    masks = torch.ones(3, 4)
    masks[1, 2] = 0
    masks[2, :2] = 0
    prepared = prepare(TOK, ITEMS, "exact", batch_size=3)
    state = {}

    def hook(_, inputs):
        heads = state["keep"].repeat_interleave(8, dim=1)[:, None, :]
        return (inputs[0] * heads,)

    handle = model.model.layers[1].self_attn.o_proj.register_forward_pre_hook(hook)
    try:
        together = measure(model, prepared, copies=3, before=lambda rows: state.update(keep=masks[rows]))
        for i in range(3):
            single = measure(model, prepared, before=lambda rows, i=i: state.update(keep=masks[i].expand(len(rows), 4)))
            np.testing.assert_allclose(together.total[i], single.total[0], atol=1e-5)
            assert together.exact[i].tolist() == single.exact[0].tolist()
    finally:
        handle.remove()
    plain = measure(model, prepared)
    np.testing.assert_allclose(together.total[0], plain.total[0], atol=1e-5)
    assert np.abs(together.total[1:] - plain.total[0]).max() > 1e-2
    assert score(together, "logprob", copy=2).mean == pytest.approx(together.values("logprob")[2].mean())


def test_only_the_logits_of_answers_are_computed(model, monkeypatch):
    shapes = []
    model.lm_head.register_forward_hook(lambda _m, inputs, _o: shapes.append(tuple(inputs[0].shape)))
    try:
        prepared = prepare(TOK, ITEMS, "logprob")
        measure(model, prepared)
    finally:
        model.lm_head._forward_hooks.clear()
    (shape,) = shapes
    assert shape[1] == prepared.tokens.max()
    assert shape[1] < prepared.batches[0].input_ids.shape[1]


def test_log_likelihoods_add_up(model):
    pairs = [("one cat, two", " cats"), ("one cat, two cats", ", three"), ("one cat, two", " cats, three")]
    result = log_likelihoods(model, TOK, pairs)
    assert result.total[0] + result.total[1] == pytest.approx(result.total[2], abs=1e-4)
    assert result.tokens[0] + result.tokens[1] == result.tokens[2]
    np.testing.assert_allclose(result.mean, result.total / result.tokens)


def test_model_is_left_as_it_was(model):
    model.train()
    model.model.layers[0].eval()
    before = [module.training for module in model.modules()]
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    evaluate(model, TOK, ITEMS)
    assert [module.training for module in model.modules()] == before
    with pytest.raises(RuntimeError, match="interrupted"):
        measure(model, prepare(TOK, ITEMS), before=lambda _: (_ for _ in ()).throw(RuntimeError("interrupted")))
    assert [module.training for module in model.modules()] == before
    assert all(torch.equal(weights[name], value) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    model.eval()


def test_nan_is_reported(model):
    table = Table(torch.full((2048, 2048), torch.nan))
    with pytest.raises(FloatingPointError, match="NaN"):
        evaluate(table, TOK, ITEMS)


def test_half_precision_keeps_the_ranking(model):
    low = transformers.LlamaForCausalLM(model.config).to(torch.bfloat16).eval()
    low.load_state_dict(model.state_dict())
    full = evaluate(model, TOK, ITEMS, mode="logprob").totals
    assert stats.spearmanr(full, evaluate(low, TOK, ITEMS, mode="logprob").totals).statistic > 0.9


def right_padded():
    tok = small_tokenizer()
    tok.padding_side = "right"
    return tok


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: evaluate(m, right_padded(), ITEMS), "tok: pads on the 'right' side, expected padding_side = 'left'"),
        (lambda m: evaluate(m, TOK, []), "items: got none"),
        (lambda m: evaluate(m, TOK, ITEMS, mode="guess"), "mode: got 'guess'"),
        (lambda m: evaluate(m, TOK, ITEMS, batch_size=0), "batch_size: got 0"),
        (lambda m: evaluate(m, TOK, ITEMS, n=2), "n: got 2 together with 4 items"),
        (lambda m: evaluate(m, TOK, ITEMS, half="test"), "half: got 'test' together with items"),
        (lambda m: evaluate(m, TOK, [Item("a", " b")], mode="choice"), "has no choices"),
        (lambda m: evaluate(m, TOK, [Item("dog " * 80 + "dog", " b")]), "the model has 64 positions"),
        (lambda m: measure(m, prepare(TOK, ITEMS), copies=0), "copies: got 0"),
        (lambda m: measure(m, prepare(TOK, ITEMS)).values("guess"), "mode: got 'guess'"),
        (lambda m: log_likelihoods(m, TOK, [([], "b")]), r"prompt: \[\] has no tokens"),
        (lambda m: log_likelihoods(m, TOK, [("a", [2048])]), "answer: got token 2048, expected ids from 0 to 2047"),
        (lambda m: measure(m, prepare(TOK, [("a", "b")], "choice")), "has no choices"),
        (lambda m: evaluate(m, TOK, [Item("somewh", "ere")]), "no beginning of those"),
    ],
)
def test_bad_input_is_named(model, call, message):
    with pytest.raises(ValueError, match=message):
        call(model)


def test_tokenizer_without_padding_token_is_refused(model):
    tok = small_tokenizer()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tok.pad_token = None
    with pytest.raises(ValueError, match="tok: has no pad token"):
        prepare(tok, ITEMS)


def test_wilson_equals_scipy():
    for hits, n in [(0, 5), (5, 5), (3, 7), (41, 60), (1, 1)]:
        expected = stats.binomtest(hits, n).proportion_ci(method="wilson")
        np.testing.assert_allclose(wilson(hits, n), (expected.low, expected.high), atol=1e-9)
    with pytest.raises(ValueError, match="hits: got 3 of 2"):
        wilson(3, 2)


def test_bootstrap_interval_is_near_the_normal_one():
    values = np.random.default_rng(1).normal(size=400)
    low, high = bootstrap(values)
    half = 1.96 * values.std() / 20
    assert low == pytest.approx(values.mean() - half, abs=0.02)
    assert high == pytest.approx(values.mean() + half, abs=0.02)
    assert bootstrap(values) == (low, high)
    with pytest.raises(ValueError, match="values: got none"):
        bootstrap(np.array([]))


def test_score_reads_well():
    assert str(evaluation.Score(0.5, np.ones(4), (0.1, 0.9), "exact", np.ones(4))) == "0.50 [0.10, 0.90] (exact, n = 4)"


def test_one_value_has_no_interval_and_levels_are_shares():
    assert np.isnan(bootstrap(np.array([1.5]))).all()
    with pytest.raises(ValueError, match="level"):
        bootstrap(np.array([1.0, 2.0]), level=95.0)
