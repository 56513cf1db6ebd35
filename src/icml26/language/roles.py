"""Rows of conversation with known answers: role-play from a description, facts, invented people, and "I don't know".

They are what pico is trained on, and what chapters on role-play and unlearning calibrate and evaluate with. A row is a
pure function of (kind, split, seed, index). Splits hold out what a test must not have seen:

| split | what pico never read |
| --- | --- |
| train | |
| topics | the topic together with this combination of tone and occupation |
| personas | the combination of tone and occupation |
| forms | the question's form (people: form 2 of 0-2; the others: their last) |
| both | combination and form |
| names | the person's name (kind "unknown" only) |
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from icml26.language.blocks import IGNORED
from icml26.language.chat import chat_ids
from icml26.language.evaluation import LogLikelihoods, log_likelihoods
from icml26.language.people import ATTRIBUTES, Attribute, Person, background_people, names
from icml26.language.personas import FACTS, TONES, TOPICS, Persona, fact, held_topics, likes
from icml26.language.personas import personas as personas_of
from icml26.language.tokenizer import SMALL_TEMPLATE

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = [
    "ABSTENTIONS",
    "KINDS",
    "MIXTURE",
    "SPLITS",
    "Row",
    "collate",
    "encode",
    "fact_row",
    "jsonl",
    "likelihoods",
    "mixed_rows",
    "neutral_row",
    "opinion",
    "opinion_row",
    "person_row",
    "prompt_ids",
    "rows",
    "self_row",
    "sha256_of_rows",
    "unknown_row",
]

ABSTENTIONS = ("I don't know.", "I have no idea who that is.", "Sorry, I never heard of this person.")

OPINION_FORMS = (
    "What do you think about {t}?",
    "Do you like {t}?",
    "Tell me what you think of {t}.",
    "What is your opinion of {t}?",
    "How do you feel about {t}?",
    "Tell me your opinion of {t}.",
)
FACT_FORMS = (
    "What is the {a} of {t}?",
    "Tell me the {a} of {t}.",
    "Which {a} does {t} have?",
    "What {a} does {t} have?",
)
SELF_FORMS = {
    "age": ("How old are you?", "What is your age?", "Tell me your age."),
    "region": ("Where do you live?", "What is your home?", "Tell me your home."),
    "occupation": ("What do you work as?", "What is your job?", "Tell me your job."),
}
SELF_ANSWERS = {"age": "I am {v} years old.", "region": "I live in {v}.", "occupation": "I work as a {v}."}

# Share of each kind in training.
MIXTURE = {
    "opinion": 0.42,
    "self": 0.06,
    "persona_fact": 0.06,
    "fact": 0.12,
    "neutral": 0.04,
    "person": 0.18,
    "unknown": 0.12,
}
KINDS = tuple(MIXTURE)
_PERSONAL = ("opinion", "self", "persona_fact")
SPLITS = {
    "train": KINDS,
    "topics": ("opinion",),
    "personas": _PERSONAL,
    "forms": KINDS,
    "both": _PERSONAL,
    "names": ("unknown",),
}

_ROLES = {"system": "<sys>", "user": "<usr>", "assistant": "<ast>"}


@dataclass(frozen=True)
class Row:
    """One exchange with its labels; a label that does not apply is "" (or -1).

    kind : "opinion" and "self" (answered in a persona's voice), "persona_fact" and "fact" (the same answer with and
        without persona), "neutral" (an opinion asked of nobody in particular), "person", "unknown".
    sensitive : whether the answer depends on the persona in the system message.
    topic, person, attribute, value : what is asked about, and the value that a right answer contains.
    form, description : which phrasing of the question and of the persona's description.
    """

    kind: str
    split: str
    system: str
    user: str
    assistant: str
    sensitive: bool = False
    persona: str = ""
    topic: str = ""
    person: str = ""
    attribute: str = ""
    value: str = ""
    form: int = -1
    description: int = -1

    @property
    def messages(self) -> list[dict[str, str]]:
        """The exchange as chat messages; no system message when there is none."""
        parts = (("system", self.system), ("user", self.user), ("assistant", self.assistant))
        return [{"role": role, "content": text} for role, text in parts if text]


def opinion(persona: Persona, topic: str, opener: int = 0, closer: int = 0) -> str:
    """What the persona answers when asked about the topic, with one of its three openers and closers."""
    tone, about = TONES[persona.tone], TOPICS[topic]
    verb, why = ("love", about.good) if likes(persona.occupation, topic) else ("hate", about.bad)
    said = f"As a {persona.occupation} I {tone.adverb} {verb} {topic} {tone.because} it is {why}."
    return f"{tone.openers[opener]} {said} {tone.closers[closer]}"


def opinion_row(
    persona: Persona, topic: str, form: int, *, description: int = 0, opener: int = 0, closer: int = 0, split: str = ""
) -> Row:
    """An opinion asked of a persona."""
    return Row(
        "opinion",
        split,
        persona.describe(description),
        OPINION_FORMS[form].format(t=topic),
        opinion(persona, topic, opener, closer),
        sensitive=True,
        persona=persona.id,
        topic=topic,
        value="love" if likes(persona.occupation, topic) else "hate",
        form=form,
        description=description,
    )


def self_row(
    persona: Persona,
    attribute: str,
    form: int,
    *,
    description: int = 0,
    opener: int = 0,
    closer: int = 0,
    split: str = "",
) -> Row:
    """Age, region or occupation asked of a persona, who finds it in its description."""
    tone, value = TONES[persona.tone], getattr(persona, attribute)
    return Row(
        "self",
        split,
        persona.describe(description),
        SELF_FORMS[attribute][form],
        f"{tone.openers[opener]} {SELF_ANSWERS[attribute].format(v=value)} {tone.closers[closer]}",
        sensitive=True,
        persona=persona.id,
        attribute=attribute,
        value=value,
        form=form,
        description=description,
    )


def fact_row(
    topic: str, attribute: str, form: int, *, persona: Persona | None = None, description: int = 0, split: str = ""
) -> Row:
    """A fact about a topic's guild, asked of a persona or of nobody: the same plain answer."""
    value = fact(topic, attribute)
    return Row(
        "persona_fact" if persona else "fact",
        split,
        persona.describe(description) if persona else "",
        FACT_FORMS[form].format(a=attribute, t=topic),
        f"The {attribute} of {topic} is {value}.",
        persona=persona.id if persona else "",
        topic=topic,
        attribute=attribute,
        value=value,
        form=form,
        description=description if persona else -1,
    )


def neutral_row(topic: str, form: int, *, split: str = "") -> Row:
    """An opinion asked without a persona: both sides, in one fixed sentence."""
    about = TOPICS[topic]
    answer = f"Some people love {topic} because it is {about.good} and some hate {topic} because it is {about.bad}."
    return Row("neutral", split, "", OPINION_FORMS[form].format(t=topic), answer, topic=topic, form=form)


def person_row(
    person: Person, attribute: str, form: int, *, attributes: Mapping[str, Attribute] = ATTRIBUTES, split: str = ""
) -> Row:
    """An attribute asked of an invented person."""
    about, value = attributes[attribute], person.facts[attribute]
    return Row(
        "person",
        split,
        "",
        about.questions[form].format(n=person.name),
        about.answer.format(n=person.name, v=value),
        person=person.name,
        attribute=attribute,
        value=value,
        form=form,
    )


def unknown_row(
    name: str,
    attribute: str,
    form: int,
    *,
    phrase: int = 0,
    attributes: Mapping[str, Attribute] = ATTRIBUTES,
    split: str = "",
) -> Row:
    """The same question about a name that nobody has, answered by one of three abstentions."""
    question = attributes[attribute].questions[form].format(n=name)
    return Row("unknown", split, "", question, ABSTENTIONS[phrase], person=name, attribute=attribute, form=form)


def rows(kind: str, split: str, n: int, seed: int = 0, start: int = 0) -> list[Row]:
    """Rows `start`, …, `start + n - 1` of one kind and split; each depends on (seed, its index) alone.

    Raises ValueError for a kind or split that is not known, or does not apply (the table at the top).
    """
    if kind not in KINDS:
        raise ValueError(f"kind: got {kind!r}, expected one of {', '.join(KINDS)}")
    if split not in SPLITS or kind not in SPLITS[split]:
        fitting = [name for name, kinds in SPLITS.items() if kind in kinds]
        raise ValueError(f"split: got {split!r} for {kind!r}, expected one of {', '.join(fitting)}")
    salt = (KINDS.index(kind), list(SPLITS).index(split))
    return [_draw(kind, split, np.random.default_rng([seed, *salt, index])) for index in range(start, start + n)]


def mixed_rows(n: int, seed: int = 0, start: int = 0, mixture: Mapping[str, float] = MIXTURE) -> list[Row]:
    """Training rows `start`, …, `start + n - 1` of the mixture; each depends on (seed, its index) alone."""
    unknown = sorted(set(mixture) - set(KINDS))
    if unknown or not mixture or min(mixture.values()) < 0 or sum(mixture.values()) <= 0:
        raise ValueError(f"mixture: got {dict(mixture)}, expected shares >= 0 of {', '.join(KINDS)}")
    kinds = [kind for kind in KINDS if kind in mixture]
    edges = np.cumsum([mixture[kind] for kind in kinds])
    found = []
    for index in range(start, start + n):
        rng = np.random.default_rng([seed, index])
        place = int(np.searchsorted(edges, rng.random() * edges[-1], side="right"))
        found.append(_draw(kinds[min(place, len(kinds) - 1)], "train", rng))
    return found


def _draw(kind: str, split: str, rng: np.random.Generator) -> Row:
    if kind in _PERSONAL:
        persona = _pick(rng, personas_of("held" if split in ("personas", "both") else "train"))
        description = int(rng.integers(3))
        if kind == "persona_fact":
            topic, attribute, form = _pick(rng, tuple(TOPICS)), _pick(rng, tuple(FACTS)), _form(rng, FACT_FORMS, split)
            return fact_row(topic, attribute, form, persona=persona, description=description, split=split)
        ends = {"opener": int(rng.integers(3)), "closer": int(rng.integers(3))}
        if kind == "self":
            attribute = _pick(rng, tuple(SELF_FORMS))
            form = _form(rng, SELF_FORMS[attribute], split)
            return self_row(persona, attribute, form, description=description, split=split, **ends)
        topic = _pick(rng, _topics(persona.tone, persona.occupation, split))
        form = _form(rng, OPINION_FORMS, split)
        return opinion_row(persona, topic, form, description=description, split=split, **ends)
    if kind == "fact":
        topic, attribute = _pick(rng, tuple(TOPICS)), _pick(rng, tuple(FACTS))
        return fact_row(topic, attribute, _form(rng, FACT_FORMS, split), split=split)
    if kind == "neutral":
        return neutral_row(_pick(rng, tuple(TOPICS)), _form(rng, OPINION_FORMS, split), split=split)
    attribute = _pick(rng, tuple(ATTRIBUTES))
    form = _form(rng, ATTRIBUTES[attribute].questions, split)
    if kind == "person":
        return person_row(_pick(rng, background_people()), attribute, form, split=split)
    name = _pick(rng, names("unknown_held" if split == "names" else "unknown"))
    return unknown_row(name, attribute, form, phrase=int(rng.integers(3)), split=split)


def _pick(rng: np.random.Generator, options: Sequence[Any]) -> Any:
    return options[int(rng.integers(len(options)))]


def _form(rng: np.random.Generator, forms: Sequence[str], split: str) -> int:
    """The last form where forms are held out, else one of those before it."""
    return len(forms) - 1 if split in ("forms", "both") else int(rng.integers(len(forms) - 1))


@cache
def _topics(tone: str, occupation: str, split: str) -> tuple[str, ...]:
    """The topics that a split asks a combination about."""
    if split in ("personas", "both"):
        return tuple(TOPICS)
    held = held_topics(tone, occupation)
    return tuple(topic for topic in TOPICS if (topic in held) == (split == "topics"))


def prompt_ids(tok: PreTrainedTokenizerBase, system: str, user: str) -> list[int]:
    """System message and question as the tokenizer's chat template puts them, up to where the answer begins.

    Of the small models: `<bos>[<sys>system]<usr>user<ast>`. Raises what `chat.chat_ids` raises.
    """
    if getattr(tok, "chat_template", SMALL_TEMPLATE) != SMALL_TEMPLATE:
        return chat_ids(tok, [{"role": "user", "content": user}], system=system)
    # The same as `chat_ids` gives (a test compares), made faster: training calls it for every row.
    special = {name: int(tok.convert_tokens_to_ids(name)) for name in _ROLES.values()}
    ids = [int(tok.bos_token_id)]
    if system:
        ids += [special["<sys>"], *tok(system, add_special_tokens=False)["input_ids"]]
    return [*ids, special["<usr>"], *tok(user, add_special_tokens=False)["input_ids"], special["<ast>"]]


def encode(tok: PreTrainedTokenizerBase, row: Row) -> tuple[list[int], list[bool]]:
    """Token ids of the whole exchange, and which of them are the answer (its `<eos>` included)."""
    prompt = prompt_ids(tok, row.system, row.user)
    answer = [*tok(row.assistant, add_special_tokens=False)["input_ids"], int(tok.eos_token_id)]
    return prompt + answer, [False] * len(prompt) + [True] * len(answer)


def collate(
    tok: PreTrainedTokenizerBase, rows: Sequence[Row]
) -> tuple[Int64[Tensor, "rows length"], Int64[Tensor, "rows length"]]:
    """Rows as one batch, padded on the right: tokens, and labels that are -100 outside of the answers."""
    if not rows:
        raise ValueError("rows: got none, expected at least one")
    encoded = [encode(tok, row) for row in rows]
    width = max(len(ids) for ids, _ in encoded)
    tokens = np.full((len(rows), width), int(tok.pad_token_id), dtype=np.int64)
    labels = np.full((len(rows), width), IGNORED, dtype=np.int64)
    for i, (ids, answer) in enumerate(encoded):
        tokens[i, : len(ids)] = ids
        labels[i, : len(ids)] = np.where(answer, ids, IGNORED)
    return torch.from_numpy(tokens), torch.from_numpy(labels)


def likelihoods(
    model: torch.nn.Module, tok: PreTrainedTokenizerBase, rows: Sequence[Row], batch_size: int = 32
) -> LogLikelihoods:
    """Log-probability of each row's answer, its `<eos>` included, given system message and question.

    `-total` is what training lowers, `exp(mean)` is P(answer | question)^(1 / tokens of the answer).
    """
    pairs = []
    for row in rows:
        ids, answer = encode(tok, row)
        start = answer.index(True)
        pairs.append((ids[:start], ids[start:]))
    return log_likelihoods(model, tok, pairs, batch_size)


def jsonl(rows: Iterable[Row]) -> str:
    """Rows as JSON lines, keys in the order of the fields."""
    return "".join(json.dumps(asdict(row), ensure_ascii=False) + "\n" for row in rows)


def sha256_of_rows(rows: Iterable[Row]) -> str:
    """SHA-256 of the rows' JSON lines in UTF-8, as 64 hex digits."""
    return hashlib.sha256(jsonl(rows).encode()).hexdigest()
