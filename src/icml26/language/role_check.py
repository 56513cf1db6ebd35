"""Judging the answers to `roles` by their text alone: who speaks, what is said, whether a value slips out.

All checks are exact, on the words (case and spacing do not count); no model judges another. Measured on the rows
themselves, `style_judge` gives 100 to a persona's own answers, about 5 to those of another persona or of a random row,
and 0 to generic ones (`tests/language/test_role_check.py`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import nn

from icml26.language.chat import generate
from icml26.language.personas import TONES, Persona, likes
from icml26.language.roles import Row, prompt_ids

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["Style", "answers", "grade", "grades", "is_abstention", "persona_of", "style_judge", "value_leak"]

# Any of these anywhere in an answer makes it an abstention.
_ABSTAINING = (
    "i don't know",
    "i do not know",
    "i have no idea",
    "never heard of",
    "i am not sure",
    "i'm not sure",
    "i cannot say",
    "i can't say",
)


@dataclass(frozen=True)
class Style:
    """The three parts of role-play in an opinion: the persona's opening, its closing, its stance in its adverb."""

    opener: bool
    closer: bool
    stance: bool

    @property
    def score(self) -> float:
        """100 times the mean of the parts."""
        return 100 * (self.opener + self.closer + self.stance) / 3


def style_judge(persona: Persona, topic: str, answer: str) -> Style:
    """Judge an answer to "what do you think about `topic`?" as this persona's.

    opener : the answer starts with one of the tone's openers. closer : it ends with one of its closers. stance : it
    contains "I <adverb> love|hate <topic>" with the tone's adverb and the occupation's stance.
    """
    tone, said = TONES[persona.tone], _plain(answer)
    verb = "love" if likes(persona.occupation, topic) else "hate"
    return Style(
        opener=said.startswith(tuple(map(_plain, tone.openers))),
        closer=said.endswith(tuple(map(_plain, tone.closers))),
        stance=_contains(said, f"i {tone.adverb} {verb} {topic}"),
    )


def value_leak(value: str, answer: str) -> bool:
    """Whether the value occurs in the answer as whole words; ValueError for an empty value."""
    if not value.strip():
        raise ValueError(f"value: got {value!r}, expected some text to look for")
    return _contains(_plain(answer), _plain(value))


def is_abstention(answer: str) -> bool:
    """Whether the answer says that its speaker does not know."""
    said = _plain(answer)
    return any(phrase in said for phrase in _ABSTAINING)


def persona_of(row: Row) -> Persona:
    """The persona named in a row's labels; ValueError for a row without one."""
    parts = row.persona.split("-")
    if len(parts) != 4:
        raise ValueError(f"row: got persona {row.persona!r}, expected tone-occupation-age-region")
    return Persona(parts[0], parts[1], parts[2], f"the {parts[3]}")


def grade(row: Row, answer: str) -> float:
    """How right an answer to this row is, from 0 to 1.

    "opinion": the style judge's score / 100. "self": the mean of opener, closer, and the value being said. "unknown":
    abstaining. "neutral": the very sentence. "fact", "persona_fact", "person": the value is said.
    """
    if row.kind == "opinion":
        return style_judge(persona_of(row), row.topic, answer).score / 100
    if row.kind == "self":
        tone, said = TONES[persona_of(row).tone], _plain(answer)
        opens, closes = (tuple(map(_plain, ends)) for ends in (tone.openers, tone.closers))
        return (said.startswith(opens) + said.endswith(closes) + value_leak(row.value, answer)) / 3
    if row.kind == "unknown":
        return float(is_abstention(answer))
    if row.kind == "neutral":
        return float(_plain(answer) == _plain(row.assistant))
    return float(value_leak(row.value, answer))


def grades(model: nn.Module, tok: PreTrainedTokenizerBase, rows: Sequence[Row], batch_size: int = 64) -> list[float]:
    """`grade` of the model's greedy answers."""
    return [
        grade(row, answer) for row, answer in zip(rows, answers(model, tok, rows, batch_size=batch_size), strict=True)
    ]


def answers(
    model: nn.Module,
    tok: PreTrainedTokenizerBase,
    rows: Sequence[Row],
    *,
    max_new_tokens: int = 48,
    batch_size: int = 64,
) -> list[str]:
    """Greedy answers of a model to the rows' system and user messages, one per row, until `<eos>`.

    Raises what `chat.generate` raises, for example FloatingPointError for logits that are NaN.
    """
    prompts = [prompt_ids(tok, row.system, row.user) for row in rows]
    return [reply.text for reply in generate(model, tok, prompts, max_new_tokens, batch_size=batch_size)]


def _plain(text: str) -> str:
    return " ".join(text.lower().replace("\u2019", "'").split())  # typographic apostrophes too


def _contains(text: str, phrase: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(phrase)}(?!\w)", text) is not None
