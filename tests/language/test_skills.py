"""Items: seeded, prefix-stable, distinct; faults are named."""

import numpy as np
import pytest

from icml26.language import skills
from icml26.language.skills import Item, Skill


def dice(rng):
    return Item(f"die {rng.integers(6)}", " x")


DICE = Skill("dice", dice, None, "six prompts")


def test_more_items_only_add_to_the_end():
    many = skills.items(DICE, 6, seed=5)
    for n in range(1, 6):
        assert skills.items(DICE, n, seed=5) == many[:n]
    assert len({item.prompt for item in many}) == 6


def test_seeds_differ():
    assert skills.items(DICE, 6, 1) != skills.items(DICE, 6, 2)


def test_exhausted_skill_says_how_many_there_are():
    with pytest.raises(ValueError, match="after 6 different ones of the skill 'dice'"):
        skills.items(DICE, 7, seed=5)
    assert len(skills.items(DICE, 20, seed=5, distinct=False)) == 20


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((DICE, 0, 1), "n: got 0"),
        ((DICE, 1, -1), "seed: got -1"),
        ((DICE, 1, 1, "train"), "half: got 'train'"),
        ((DICE, 1, 1, "test"), "'dice' is not split"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        skills.items(*arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("", " a"), "prompt: got an empty"),
        (("p", " "), "answer: got ' '"),
        (("p", " a", (" b", " c")), "choices: got"),
        (("p", " a", (" a",)), "choices: got"),
        (("p", " a", (" a", " a")), "choices: got"),
        (("p", " a", (), (" a",)), "accepted: got"),
        (("p", " a", (), (" b", " b")), "accepted: got"),
    ],
)
def test_impossible_items_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Item(*arguments)


def test_impossible_skills_are_refused():
    with pytest.raises(ValueError, match="name: got an empty"):
        Skill("", dice, None, "")
    with pytest.raises(ValueError, match="mode: got 'guess'"):
        Skill("a", dice, None, "", mode="guess")
    with pytest.raises(ValueError, match=r"halves: got \['train'\]"):
        Skill("a", dice, None, "", halves={"train": dice})


def test_registry_knows_two_tiers():
    assert skills.registry("real") is skills.REAL
    assert skills.registry("small") is skills.SMALL
    assert all(name == skill.name for tier in ("real", "small") for name, skill in skills.registry(tier).items())
    with pytest.raises(ValueError, match="tier: got 'large'"):
        skills.registry("large")
    with pytest.raises(AttributeError, match="MEDIUM"):
        _ = skills.MEDIUM


@pytest.mark.parametrize("name", ["REAL", "SMALL"])
def test_generators_are_pure(name):
    for skill in getattr(skills, name).values():
        state = np.random.default_rng(7)
        first = [skill.generate(state) for _ in range(5)]
        state = np.random.default_rng(7)
        assert [skill.generate(state) for _ in range(5)] == first
