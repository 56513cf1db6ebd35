"""The small tokenizer: round trips, special tokens, one token a word, and that its script still makes it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icml26.language import skills
from icml26.language.small_skills import LETTERS, SKILLS, WORDS
from icml26.language.tokenizer import FILE, SPECIAL, VOCABULARY, small_tokenizer, train_tokenizer

TOKENIZER = small_tokenizer()


def encode(text: str) -> list[int]:
    return TOKENIZER(text, add_special_tokens=False)["input_ids"]


@given(st.text(alphabet=st.characters(exclude_categories=("Cs",))))
def test_every_text_comes_back(text):
    ids = encode(text)
    if not any(mark in text for mark in SPECIAL):
        assert TOKENIZER.decode(ids) == text
    assert all(0 <= i < VOCABULARY for i in ids)


def test_special_tokens_are_the_first_six():
    assert TOKENIZER.convert_tokens_to_ids(list(SPECIAL)) == [0, 1, 2, 3, 4, 5]
    assert (TOKENIZER.pad_token_id, TOKENIZER.bos_token_id, TOKENIZER.eos_token_id) == (0, 1, 2)
    assert encode("<sys>x<usr>y<ast>")[0] == 3
    assert len(TOKENIZER) == VOCABULARY


def test_text_begins_with_bos_and_is_padded_on_the_left():
    ids = TOKENIZER(["a", "a b c d"], padding=True)["input_ids"]
    assert ids[1][0] == 1
    assert ids[0][:2] == [0, 0]
    assert 1 in ids[0]


def test_digits_are_single_tokens():
    assert len(encode("4817")) == 4


@pytest.mark.parametrize("text", [*WORDS, *LETTERS, *"([{<)]}>", "="])
def test_word_of_a_skill_is_one_token(text):
    assert len(encode(f" {text}")) == 1


@given(st.sampled_from(sorted(SKILLS)), st.integers(0, 2**31))
def test_answer_starts_a_token(name, seed):
    (item,) = skills.items(SKILLS[name], 1, seed)
    assert encode(item.prompt) + encode(item.answer) + encode("\n") == encode(f"{item.prompt}{item.answer}\n")


@pytest.mark.slow
def test_script_still_makes_the_committed_file():
    committed = json.loads(FILE.read_text("utf-8"))
    assert json.loads(train_tokenizer(0).to_str()) == committed
