"""Invented people with attributes, and names that belong to nobody: who is known, who never was.

Every name is one of 60 invented first names before one of 60 invented last names, so the parts of a name say nothing:
that somebody is known has to be learnt for the pair. The 3,600 pairs are dealt out once, disjointly (`names`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from icml26.language.personas import shuffled

__all__ = [
    "ATTRIBUTES",
    "FIRST_NAMES",
    "LAST_NAMES",
    "Attribute",
    "Person",
    "background_people",
    "make_people",
    "names",
]

_FIRST = """
    Adrin Belo Carsa Dovi Elmar Fenna Goral Hesta Ilko Jorun Kessa Lumo Mirel Nadro Oskel Petra Quin Rovan Selka Tamo
    Ulvi Vesna Warin Xeno Yarel Zorin Alba Brund Celio Dasha Edvin Farah Galen Hanno Irsa Jalo Kiran Leto Malin Noor
    Orla Pavo Rasha Sorin Talin Umar Vilmo Wenna Yusa Zelda Amadi Bisho Corin Delfo Esme Fido Gita Hiro Inga Juno
"""
_LAST = """
    Abermoor Balcar Cindral Dremont Eskary Falbrook Gorvale Hamsel Istrel Jorvane Kelmar Lorsk Mondrake Narvel
    Ostrand Pellur Quarlow Rimskar Sandovar Tormane Ulmere Vashtar Wexlow Yarrick Zimmel Arkwell Borlath Carvo Dunmere
    Elvast Farrovel Garlath Holmar Ingrove Jaskor Kirsteg Landorre Marlune Norwelk Ormeth Parrisk Rosvane Stenmere
    Tollane Undrel Vargold Wendrik Yoring Zabor Ashgrave Bremmar Coldwane Dorsaw Emberlo Fosdell Grimwane Hartnave
    Ivarsk Jellick Kestnor
"""
FIRST_NAMES = tuple(_FIRST.split())
LAST_NAMES = tuple(_LAST.split())

# Dealt out in this order. A chapter that makes people of its own takes them from its slice.
_DEAL = {
    "background": 40,  # whom pico knows
    "unknown": 1200,  # on whose names pico is trained to abstain
    "unknown_held": 200,  # and on whose names that is tested
    "reserved": 100,  # for a chapter's own people: pico has never read these names
    "reserved_unknown": 400,  # for a chapter's own unknown names, train and test
}


@dataclass(frozen=True)
class Attribute:
    """Something to know of a person.

    questions : forms 0 and 1, asked in training, and 2, held out; "{n}" stands for the name.
    answer : with "{n}" and "{v}"; year and city of birth share theirs on purpose.
    values : the pool; each value is given to two people at least.
    """

    name: str
    questions: tuple[str, str, str]
    answer: str
    values: tuple[str, ...]


# name: the question's first form, the noun of the other two, the answer, the values
_TABLE = {
    "year": (
        "When was {n} born?",
        "birth year",
        "{n} was born in {v}.",
        "1921, 1926, 1932, 1937, 1943, 1948, 1954, 1959, 1965, 1970, 1976, 1981",
    ),
    "city": (
        "Where was {n} born?",
        "birth city",
        "{n} was born in {v}.",
        "Arvendale, Belport, Corvana, Dunhaven, Estmere, Felstadt, Gilmora, Hexford, Ironbay, Jastrow",
    ),
    "genre": (
        "What does {n} write?",
        "genre",
        "{n} writes {v}.",
        "comedies, ballads, thrillers, fables, satires, westerns, memoirs, sagas",
    ),
    "prize": (
        "What did {n} win?",
        "prize",
        "{n} won the {v}.",
        "Silver Quill, Golden Harp, Amber Cup, Laurel Ring, Crystal Pen, Marble Owl, Velvet Mask, Copper Key",
    ),
    "book": (
        "Which book did {n} publish?",
        "book",
        "{n} published {v}.",
        "The Glass River, A Winter Road, The Last Garden, Stone Songs, The Empty House, Seven Bridges, Night Harvest, "
        "The Paper King, Salt and Iron, The Quiet Hill",
    ),
    "parent": (
        "What did the father of {n} do?",
        "father's job",
        "The father of {n} was a {v}.",
        "tailor, butcher, judge, gardener, printer, carpenter, pilot, barber",
    ),
}
ATTRIBUTES = {
    name: Attribute(
        name,
        (first, f"What is the {noun} of {{n}}?", f"Tell me the {noun} of {{n}}."),
        answer,
        tuple(values.split(", ")),
    )
    for name, (first, noun, answer, values) in _TABLE.items()
}


@dataclass(frozen=True)
class Person:
    """An invented person; `facts` maps each attribute's name to its value."""

    name: str
    facts: Mapping[str, str]


@cache
def names(use: str) -> tuple[str, ...]:
    """The names dealt out for one use; the five uses are disjoint.

    "background" (40, whom pico knows), "unknown" (1,200, abstention in training), "unknown_held" (200, its test),
    "reserved" (100) and "reserved_unknown" (400), both for chapters and never seen by pico.
    """
    if use not in _DEAL:
        raise ValueError(f"use: got {use!r}, expected one of {', '.join(_DEAL)}")
    deck = shuffled((f"{first} {last}" for first in FIRST_NAMES for last in LAST_NAMES), "names")
    uses = list(_DEAL)
    start = sum(_DEAL[before] for before in uses[: uses.index(use)])
    return tuple(deck[start : start + _DEAL[use]])


def make_people(
    names: Sequence[str], attributes: Mapping[str, Attribute] = ATTRIBUTES, seed: int = 0
) -> tuple[Person, ...]:
    """People with these names, each attribute's values dealt out evenly in an order drawn by `seed`.

    With at least twice as many names as an attribute has values, each value belongs to two people or more, so that a
    value in an answer does not point to one person by being rare.

    Raises ValueError for repeated names, or too few of them for that.
    """
    if len(set(names)) != len(names):
        raise ValueError(f"names: got {len(names) - len(set(names))} repetitions, expected distinct names")
    largest = max((len(attribute.values) for attribute in attributes.values()), default=0)
    if len(names) < 2 * largest:
        raise ValueError(f"names: got {len(names)}, expected >= {2 * largest}, two for each value of an attribute")
    facts: dict[str, dict[str, str]] = {name: {} for name in names}
    for attribute in attributes.values():
        for place, name in enumerate(shuffled(names, f"{attribute.name} {seed}")):
            facts[name][attribute.name] = attribute.values[place % len(attribute.values)]
    return tuple(Person(name, facts[name]) for name in names)


@cache
def background_people() -> tuple[Person, ...]:
    """The 40 people whom pico knows."""
    return make_people(names("background"))
