"""Skills: little tasks with exact answers that show whether a language model can still do one thing.

A skill is a seeded generator of items (a prompt and the text that should follow it), where possible an independent
solver that works the answer out from the prompt, and one sentence on what it asks. `REAL` holds those for English
models of a hundred million parameters and more, `SMALL` those that the book's own small models are trained on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    REAL: dict[str, Skill]
    SMALL: dict[str, Skill]

__all__ = ["EVALUATION_SEED", "HALVES", "MODES", "REAL", "SMALL", "Item", "Skill", "items", "registry"]

EVALUATION_SEED = 1_000_000
"""Seeds from here on belong to evaluation; no training stream draws items with one."""

HALVES = ("discovery", "test")
MODES = ("exact", "first", "logprob", "choice")

_ATTEMPTS = 500  # draws for one item before the skill is declared exhausted


@dataclass(frozen=True)
class Item:
    """One prompt and what should follow it.

    prompt : ends without the white space that separates it from the answer.
    answer : begins with that white space where there is one: "The capital of France is" + " Paris".
    choices : for two-way (or many-way) choice by likelihood; holds `answer` itself and the wrong ones. Empty when
        the item has none.
    accepted : further texts that are right as well (" little" beside " small"); modes exact and first accept them.
    """

    prompt: str
    answer: str
    choices: tuple[str, ...] = ()
    accepted: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.prompt:
            raise ValueError("prompt: got an empty string, expected text")
        if not self.answer.strip():
            raise ValueError(f"answer: got {self.answer!r} for the prompt {self.prompt!r}, expected text")
        if self.choices and (self.choices.count(self.answer) != 1 or len(self.choices) < 2):
            raise ValueError(
                f"choices: got {self.choices} for the answer {self.answer!r}, expected it once among two or more"
            )
        if len(set(self.right)) != 1 + len(self.accepted):
            raise ValueError(f"accepted: got {self.accepted}, expected different texts other than {self.answer!r}")

    @property
    def right(self) -> tuple[str, ...]:
        """Every text that counts as a right answer, `answer` first."""
        return (self.answer, *self.accepted)


Generator = Callable[[np.random.Generator], Item]


@dataclass(frozen=True)
class Skill:
    """A named task.

    generate : draws one item; the same generator state gives the same item.
    solve : the right answer read off the prompt by other means than the generator's; None where there is no such way.
    about : one sentence for tables and pages, with its ambiguities.
    mode : how `evaluation.evaluate` judges it unless told otherwise.
    halves : generators over disjoint material (words, number pairs, …), keyed "discovery" and "test": what is
        selected on one half is reported on the other. Empty when the skill is not split.
    """

    name: str
    generate: Generator
    solve: Callable[[str], str] | None
    about: str
    mode: str = "exact"
    halves: Mapping[str, Generator] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("name: got an empty string, expected a name")
        if self.mode not in MODES:
            raise ValueError(f"mode: got {self.mode!r} for the skill {self.name!r}, expected one of {list(MODES)}")
        if self.halves and set(self.halves) != set(HALVES):
            raise ValueError(f"halves: got {sorted(self.halves)} for {self.name!r}, expected {sorted(HALVES)}")


def items(skill: Skill, n: int, seed: int, half: str | None = None, distinct: bool = True) -> list[Item]:
    """The first `n` items of a skill under a seed; a larger `n` only adds to the end.

    half : None for all of the skill's material, or "discovery" or "test".
    distinct : no prompt twice (a repetition is drawn again); then asking for more prompts than the skill has raises.

    Raises ValueError for n < 1, a negative seed, an unknown half, a skill that is not split or is exhausted.
    """
    if n < 1:
        raise ValueError(f"n: got {n}, expected at least one item")
    if seed < 0:
        raise ValueError(f"seed: got {seed}, expected a number >= 0")
    generate = skill.generate
    if half is not None:
        if half not in HALVES:
            raise ValueError(f"half: got {half!r}, expected None or one of {list(HALVES)}")
        if half not in skill.halves:
            raise ValueError(f"half: got {half!r}, but the skill {skill.name!r} is not split")
        generate = skill.halves[half]
    drawn: list[Item] = []
    seen: set[str] = set()
    for i in range(n):
        for attempt in range(_ATTEMPTS):
            item = generate(np.random.default_rng([seed, i, attempt]))
            if not distinct or item.prompt not in seen:
                break
        else:
            raise ValueError(
                f"n: got {n}, but {_ATTEMPTS} draws brought no new prompt after {i} different ones of the skill "
                f"{skill.name!r}; ask for fewer or pass distinct=False"
            )
        seen.add(item.prompt)
        drawn.append(item)
    return drawn


def registry(tier: str) -> dict[str, Skill]:
    """The skills by name: tier "real" (English) or "small" (the book's own models)."""
    if tier not in ("real", "small"):
        raise ValueError(f"tier: got {tier!r}, expected 'real' or 'small'")
    found: dict[str, Skill] = __getattr__("REAL" if tier == "real" else "SMALL")
    return found


def __getattr__(name: str) -> Any:
    # Lazily: the word lists are read when somebody asks for them.
    homes = {"REAL": "english_skills", "SMALL": "small_skills"}
    if name not in homes:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return import_module(f"icml26.language.{homes[name]}").SKILLS
