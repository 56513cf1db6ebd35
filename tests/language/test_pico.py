"""pico: its batches and loss by hand, and that script, weights and card belong together."""

import json

import numpy as np
import pytest
import torch

from icml26 import lab
from icml26.lab.download import sha256_of
from icml26.language import pico, pretraining, role_check, roles, wiki
from icml26.language.models import assets_folder, load_lm
from icml26.language.tokenizer import FILE, small_tokenizer

FOLDER = assets_folder("pico")
TOK = small_tokenizer()
committed = pytest.mark.skipif(not (FOLDER / "card.json").is_file(), reason="pico is not committed yet")


@pytest.fixture(scope="module")
def card():
    return json.loads((FOLDER / "card.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def model():
    return load_lm("pico", dtype="float32", device="cpu")[0]


@pytest.fixture(scope="module")
def text():
    try:
        return wiki.split("train")
    except ImportError as error:
        pytest.skip(str(error))


def test_a_batch_holds_its_rows_and_its_articles(text):
    batches = pico.Batches(TOK, text[:2], seed=3, rows=10, articles=2)
    first, again = batches(4), pico.Batches(TOK, text[:2], seed=3, rows=10, articles=2)(4)
    assert all(
        torch.equal(a, b) for one, other in zip(first, again, strict=True) for a, b in zip(one, other, strict=True)
    )
    drawn = roles.mixed_rows(10, seed=3, start=40)
    answers = sorted(row.assistant for row in drawn)
    said = [TOK.decode(row[row != -100], skip_special_tokens=True) for _, labels, _ in first[:-1] for row in labels]
    assert sorted(said) == answers
    tokens, labels, weights = first[-1]
    assert (weights == 1).all()
    assert tokens.shape == (2, 128)
    assert torch.equal(tokens, labels)
    assert (tokens[:, 0] == TOK.bos_token_id).all()


def test_batches_without_articles():
    groups = pico.Batches(TOK, [], seed=0, rows=4, articles=0)(0)
    assert sum(len(tokens) for tokens, *_ in groups) == 4


def test_the_loss_is_the_weighted_mean_over_labelled_tokens():
    model = pretraining.PICO.model(1)
    groups = pico.Batches(TOK, [], seed=0, rows=4, articles=0)(0)
    found = pico.loss(model, groups)
    sums, count = 0.0, 0.0
    for tokens, labels, weights in groups:
        for row, wanted, weight in zip(tokens, labels, weights, strict=True):  # a row at a time, without its padding
            length = int((row != TOK.pad_token_id).sum())
            with torch.no_grad():
                logp = model(input_ids=row[None, :length]).logits[0].log_softmax(-1)
            for place in range(1, length):
                if wanted[place] != -100:
                    sums -= float(weight[place] * logp[place - 1, row[place]])
                    count += float(weight[place])
    assert found.item() == pytest.approx(sums / count, rel=1e-4)


def test_values_count_more():
    rows = roles.mixed_rows(60)
    for row in rows:
        places = pico.value_places(TOK, row)
        ids = TOK(row.assistant, add_special_tokens=False)["input_ids"]
        assert TOK.decode([ids[place] for place in places]).strip() == row.value
    (tokens, labels, weights), *_ = pico.Batches(TOK, [], seed=0, rows=30, articles=0, value_weight=7)(0)
    drawn = [row for row in roles.mixed_rows(30) if row.system]
    for row, ids, weight in zip(drawn, tokens, weights, strict=True):
        assert TOK.decode(ids[weight == 7]).strip() == row.value
        assert set(weight.tolist()) == {1.0, 7.0}
    assert (weights[labels == -100] == 1).all()


@committed
def test_card_and_rows_belong_together(card):
    assert card["rows_sha256"] == roles.sha256_of_rows(roles.mixed_rows(1000, 0))
    assert card["wikipedia_sha256"] == wiki.SHA256
    assert card["tokenizer_sha256"] == sha256_of(FILE)
    assert (FOLDER / "model.safetensors").stat().st_size < 1_000_000


@committed
def test_the_shape_is_the_one_promised(card, model):
    assert sum(p.numel() for p in model.parameters()) == card["parameters"]
    assert (model.config.hidden_size, model.config.intermediate_size, model.config.num_hidden_layers) == (64, 192, 4)
    assert all(torch.isfinite(p).all() for p in model.parameters())


def first_losses(card, text, seed):
    recipe = card["recipe"]
    return lab.train.fit(
        pretraining.PICO.model(seed),
        pico.loss,
        pico.Batches(TOK, text, seed, **{k: recipe[k] for k in ("rows", "articles", "value_weight")}),
        optimizer=lambda parameters: pretraining.adamw(parameters, recipe["learning_rate"]),
        steps=pretraining.FIRST,
        schedule=pretraining.one_cycle(card["steps"]),
        clip=1.0,
        seed=seed,
    ).losses


@committed
@pytest.mark.slow
def test_the_first_steps_run_again(card, text):
    found = first_losses(card, text, card["seed"])
    # Other seeds differ by a few parts in a thousand so early: 2 % would accept them.
    np.testing.assert_allclose(found, card["first_losses"], rtol=5e-4)
    other = first_losses(card, text, card["seed"] + 1)
    assert np.abs(other / card["first_losses"] - 1).max() > 1e-3


@committed
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "split"),
    [("opinion", "personas"), ("fact", "train"), ("person", "train"), ("unknown", "names"), ("self", "personas")],
)
def test_a_sample_of_the_grades_is_measured_again(card, model, kind, split):
    stated = card["grades"][kind][split]
    asked = roles.rows(kind, split, 40, seed=pico.EVALUATION_SEED)  # the first 40 of those the card measured
    found = float(np.mean(role_check.grades(model, TOK, asked)))
    spread = np.sqrt(max(stated["mean"] * (1 - stated["mean"]), 0.01) / len(asked))
    assert abs(found - stated["mean"]) < 4 * spread


@committed
def test_untrained_weights_fail_the_same_measurement():
    asked = roles.rows("fact", "train", 10, seed=pico.EVALUATION_SEED)
    assert np.mean(role_check.grades(pretraining.PICO.model(0).eval(), TOK, asked)) < 0.3


@committed
def test_the_perplexity_is_measured_again(card, model, text):
    found = pretraining.wikipedia_measures(model, TOK, 128)
    for split, stated in card["wikipedia"].items():
        assert found[split]["tokens"] == stated["tokens"]
        assert found[split]["perplexity"] == pytest.approx(stated["perplexity"], rel=2e-3)


@committed
def test_the_acceptance_is_what_the_grades_say(card):
    for name, entry in card["acceptance"].items():
        kind, split, part = name.split("/")
        assert entry["got"] == card["grades"][kind][split][part]
        assert entry["met"] == (entry["got"] >= entry["wanted"])
