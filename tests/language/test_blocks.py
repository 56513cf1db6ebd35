"""Blocks: exact length, nothing across texts, nothing lost but the ends."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from icml26.language.blocks import begins_with_bos, block_bytes, blocks, token_ids
from icml26.language.tokenizer import small_tokenizer

TOKENIZER = small_tokenizer()
WORDS = st.lists(st.sampled_from(["dog", "cat", "", "é", "fish.", "42"]), min_size=20, max_size=60).map(" ".join)


@given(st.lists(WORDS, min_size=1, max_size=4), st.integers(2, 12))
def test_blocks_are_the_texts_cut_up(texts, length):
    rows = blocks(texts, TOKENIZER, length)
    assert rows.dtype == torch.int64
    assert bool((rows[:, 0] == TOKENIZER.bos_token_id).all())
    body, at = length - 1, 0
    for text in texts:
        ids = token_ids(text, TOKENIZER)
        whole = len(ids) // body
        assert rows[at : at + whole, 1:].flatten().tolist() == ids[: whole * body].tolist()
        at += whole
    assert at == len(rows)


def test_tokenizer_without_bos_gives_blocks_without_it():
    plain = small_tokenizer()
    plain.backend_tokenizer.post_processor = None
    from tokenizers import processors

    plain.backend_tokenizer.post_processor = processors.TemplateProcessing(single="$A", pair="$A $B")
    assert not begins_with_bos(plain)
    rows = blocks(["dog cat fish " * 20], plain, 8)
    assert rows[0].tolist() == token_ids("dog cat fish " * 20, plain)[:8].tolist()


def test_choice_is_seeded_and_without_repetition():
    text = [" ".join(map(str, range(400)))]
    every = blocks(text, TOKENIZER, 16)
    some = blocks(text, TOKENIZER, 16, n=10, seed=1)
    assert torch.equal(some, blocks(text, TOKENIZER, 16, n=10, seed=1))
    assert not torch.equal(some, blocks(text, TOKENIZER, 16, n=10, seed=2))
    assert len({tuple(row) for row in some.tolist()} & {tuple(row) for row in every.tolist()}) == 10
    assert torch.equal(blocks(text, TOKENIZER, 16, n=3), every[:3])


def test_texts_after_the_last_block_are_not_read():
    first = " ".join(map(str, range(100)))
    unread = [first, first, " "]  # blank: reading it raises
    assert torch.equal(blocks(unread, TOKENIZER, 16, n=3), blocks([first], TOKENIZER, 16)[:3])
    with pytest.raises(ValueError, match="text: got ' '"):
        blocks(unread, TOKENIZER, 16, n=3, seed=0)


def test_a_text_is_tokenised_once_per_tokenizer(monkeypatch):
    texts = [" ".join(map(str, range(start, start + 90))) for start in (1000, 2000)]
    read = []
    plain = token_ids
    monkeypatch.setattr("icml26.language.blocks.token_ids", lambda text, tok: read.append(text) or plain(text, tok))
    some = blocks(texts, TOKENIZER, 16, n=4, seed=1)
    kept = some.clone()
    some.zero_()  # what the caller does to its blocks is not remembered
    assert torch.equal(blocks(texts, small_tokenizer(), 16, n=4, seed=1), kept)
    assert read == texts
    other = small_tokenizer()
    other.add_tokens(["123"])
    blocks(texts, other, 16, n=4, seed=1)
    assert read == texts * 2


def test_bytes_add_up_to_the_text():
    text = "The café costs 42 euros, naïvely. " * 30
    rows = blocks([text], TOKENIZER, 10)
    covered = TOKENIZER.decode(token_ids(text, TOKENIZER)[: rows[:, 1:].numel()])
    assert abs(int(block_bytes(rows, TOKENIZER).sum()) - len(covered.encode())) <= 2 * len(rows)


@pytest.mark.parametrize(
    ("texts", "length", "n", "message"),
    [
        (["dog"], 1, None, "length: got 1"),
        ([], 8, None, "texts: got none"),
        ("dog", 8, None, "texts: got one string"),
        (["dog", " "], 8, None, "text: got ' '"),
        (["dog " * 30], 8, 99, "n: got 99, expected 1 to"),
        (["dog " * 30], 8, 0, "n: got 0"),
    ],
)
def test_bad_input(texts, length, n, message):
    with pytest.raises(ValueError, match=message):
        blocks(texts, TOKENIZER, length, n=n)


def test_text_must_be_text():
    with pytest.raises((TypeError, Exception), match="int|str"):
        blocks([3], TOKENIZER, 8)


def test_too_short_texts_say_so():
    with pytest.raises(ValueError, match="no text has"):
        blocks(["dog"], TOKENIZER, 64)


def test_names_of_special_tokens_in_a_text_are_text():
    ids = token_ids("a<eos>b", TOKENIZER)
    assert not set(ids.tolist()) & set(TOKENIZER.all_special_ids)
    assert TOKENIZER.decode(ids) == "a<eos>b"
    assert TOKENIZER("a<eos>")["input_ids"][-1] == TOKENIZER.eos_token_id  # the tokenizer itself is as it was


def test_half_a_surrogate_pair_is_named():
    with pytest.raises(ValueError, match=r"text: got the lone surrogate '\\ud800' at 1"):
        token_ids("a\ud800", TOKENIZER)
