"""The small skills: answers by an independent solver, and no evaluation prompt in the training stream."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icml26.language import skills
from icml26.language.small_skills import LETTERS, SKILLS, WORDS, held_out, training_line, training_lines

NAMES = st.sampled_from(sorted(SKILLS))


@given(NAMES, st.integers(0, 2**31))
def test_answer_is_what_the_prompt_asks(name, seed):
    (item,) = skills.items(SKILLS[name], 1, seed)
    assert SKILLS[name].solve(item.prompt) == item.answer


@given(st.integers(0, 2**31))
def test_training_answers_too(seed):
    item = training_line(np.random.default_rng(seed))
    assert SKILLS[re.match(r"\w+", item.prompt)[0]].solve(item.prompt) == item.answer


# Worked out by hand.
@pytest.mark.parametrize(
    ("prompt", "answer"),
    [
        ("copy: dog q cat =", " dog q cat"),
        ("reverse:4817=", "7184"),
        ("add:27+15=", "42"),
        ("count q: q d q x =", "2"),
        ("first: dog q cat =", " dog"),
        ("last: dog q cat =", " cat"),
        ("close: ( [ { } < =", " > ] )"),
        ("lookup b: a dog b cat c pig =", " cat"),
    ],
)
def test_solver_by_hand(prompt, answer):
    assert SKILLS[re.match(r"\w+", prompt)[0]].solve(prompt) == answer


def test_solver_refuses_other_prompts():
    with pytest.raises(ValueError, match="prompt: got 'sing: a ='"):
        SKILLS["copy"].solve("sing: a =")


def test_no_evaluation_prompt_is_in_the_training_stream():
    trained = {item.prompt for item in itertools.islice(training_lines(0), 6_000)}
    for name, skill in SKILLS.items():
        asked = {item.prompt for item in skills.items(skill, 40, skills.EVALUATION_SEED)}
        assert len(asked) == 40
        assert not trained & asked, name
    # and not by luck: the pools are apart for every seed
    assert not any(map(held_out, trained))


@given(NAMES, st.integers(0, 2**31))
def test_halves_are_disjoint_and_held_out(name, seed):
    (discovery,) = skills.items(SKILLS[name], 1, seed, half="discovery")
    (test,) = skills.items(SKILLS[name], 1, seed, half="test")
    assert held_out(discovery.prompt, "discovery")
    assert not held_out(discovery.prompt, "test")
    assert held_out(test.prompt, "test")
    assert held_out(test.prompt)
    assert held_out(discovery.prompt)


def test_all_skills_are_trained_alike():
    counts = dict.fromkeys(SKILLS, 0)
    for item in itertools.islice(training_lines(3), 1600):
        counts[re.match(r"\w+", item.prompt)[0]] += 1
    assert min(counts.values()) > 140
    assert max(counts.values()) < 260


def test_every_answer_of_count_occurs():
    answers = {item.answer for item in skills.items(SKILLS["count"], 100, 0)}
    assert answers == set("1234567")


def test_vocabulary_has_no_doubles():
    assert len(set(WORDS + LETTERS)) == len(WORDS) + len(LETTERS)
