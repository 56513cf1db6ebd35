"""The small models' training data, loss and card."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
import transformers

from icml26.language import pretraining, wiki
from icml26.language.blocks import token_ids
from icml26.language.small_skills import SKILLS
from icml26.language.tokenizer import small_tokenizer

TOKENIZER = small_tokenizer()


@pytest.fixture(scope="module")
def mixture():
    return pretraining.Mixture(TOKENIZER, wiki.split("train")[:6], seed=3)


def test_batches_are_a_pure_function_of_their_index(mixture):
    for index in (0, 1, 7):
        for a, b in zip(mixture(index), mixture(index), strict=True):
            assert torch.equal(a, b)
    assert not torch.equal(mixture(0)[0], mixture(2)[0])


def test_every_batch_has_the_same_number_of_tokens(mixture):
    assert [tuple(mixture(i)[0].shape) for i in range(4)] == [(8, 128), (4, 256), (8, 128), (4, 256)]


def test_a_row_is_a_stretch_of_one_article_or_lines_of_skills(mixture):
    articles = [token_ids(text, TOKENIZER).tolist() for text in wiki.split("train")[:6]]
    kinds = []
    for index in range(6):
        tokens, labels = mixture(index)
        assert bool((tokens[:, 0] == TOKENIZER.bos_token_id).all())
        for row, label in zip(tokens.tolist(), labels.tolist(), strict=True):
            article = label == row
            kinds.append(article)
            if article:
                found = any(
                    article_ids[i : i + len(row) - 1] == row[1:]
                    for article_ids in articles
                    for i in range(len(article_ids) - len(row) + 2)
                    if article_ids[i] == row[1]
                )
                assert found
            else:
                lines = TOKENIZER.decode(row[1:]).split("\n")[:-1]
                asked = [line.partition("=") for line in lines]
                for head, equals, answer in asked:
                    name = head.split(":")[0].split(" ")[0]
                    assert SKILLS[name].solve(head + equals) == answer
    assert 0.2 < np.mean(kinds) < 0.6


def test_only_answers_of_skills_are_trained_on(mixture):
    tokens, labels = next(
        (t, y) for batch in map(mixture, range(9)) for t, y in zip(*batch, strict=True) if int(y[0]) == -100
    )
    text = "".join(
        TOKENIZER.decode([t]) if y == t else "·" for t, y in zip(tokens.tolist(), labels.tolist(), strict=True)
    )
    for line in text.split("\n")[:-1]:
        assert line.lstrip("·")
        assert "=" not in line
        assert ":" not in line


def test_loss_is_that_of_the_labelled_tokens():
    model = pretraining.PICO.model(0)
    tokens = torch.randint(6, 2048, (2, 9), generator=torch.Generator().manual_seed(0))
    labels = torch.full_like(tokens, -100)
    labels[0, 4] = tokens[0, 4]
    with torch.no_grad():
        by_hand = -model(tokens[:1, :4]).logits[0, -1].log_softmax(-1)[tokens[0, 4]]
        assert float(pretraining.answer_loss(model, (tokens, labels))) == pytest.approx(float(by_hand), rel=1e-5)
        usual = model(tokens, labels=tokens).loss
        assert float(pretraining.answer_loss(model, (tokens, tokens))) == pytest.approx(float(usual), rel=1e-5)


def test_schedule():
    factor = pretraining.one_cycle(1000)
    values = [factor(i) for i in range(1000)]
    assert values[0] == pytest.approx(1 / 50)
    assert max(values) == 1
    assert int(np.argmax(values)) in (49, 50)
    assert np.all(np.diff(values[50:]) <= 0)
    assert values[-1] == pytest.approx(0.01, abs=1e-3)
    assert all(pretraining.one_cycle(1)(i) > 0 for i in range(3))


@pytest.mark.parametrize(
    ("shape", "weights"),
    # embedding + layers × (4 h² + 3 h f + 2 h) + h
    [
        (pretraining.NANO, 2048 * 192 + 8 * (4 * 192**2 + 3 * 192 * 576 + 2 * 192) + 192),
        (pretraining.PICO, 2048 * 64 + 4 * (4 * 64**2 + 3 * 64 * 192 + 2 * 64) + 64),
    ],
)
def test_size(shape, weights):
    model = shape.model(0)
    assert sum(p.numel() for p in model.parameters()) == weights
    assert model.config.num_key_value_heads == shape.heads
    assert model.config.head_dim == 16


def test_initial_weights_follow_the_seed_and_leave_the_caller_s_alone():
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    first = pretraining.PICO.model(1)
    assert torch.equal(torch.rand(3), expected)
    again, other = pretraining.PICO.model(1), pretraining.PICO.model(2)
    assert torch.equal(first.lm_head.weight, again.lm_head.weight)
    assert not torch.equal(first.lm_head.weight, other.lm_head.weight)


def test_saved_model_comes_back_in_float16(tmp_path):
    model = pretraining.PICO.model(0)
    pretraining.save_small(tmp_path, model, {"seed": 0})
    assert sorted(p.name for p in tmp_path.iterdir()) == ["card.json", "config.json", "model.safetensors"]
    back = transformers.LlamaForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    for name, value in model.state_dict().items():
        assert torch.equal(back.state_dict()[name], value.half().float()), name
    assert back.lm_head.weight is back.model.embed_tokens.weight
    assert json.loads((tmp_path / "card.json").read_text()) == {"seed": 0}


def test_weights_that_float16_cannot_hold_are_refused_and_the_old_files_stay(tmp_path):
    model = pretraining.PICO.model(0)
    pretraining.save_small(tmp_path, model, {"seed": 0})
    with torch.no_grad():
        model.model.norm.weight[0] = 1e6
    with pytest.raises(FloatingPointError, match="does not fit into float16"):
        pretraining.save_small(tmp_path, model, {"seed": 1})
    assert json.loads((tmp_path / "card.json").read_text()) == {"seed": 0}
