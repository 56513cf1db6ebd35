"""Role-play rows: what is held out stays out, what is derivable is consistent, and every row can be made again."""

import itertools
import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icml26.language import people, personas, roles
from icml26.language.personas import FACTS, OCCUPATIONS, TONES, TOPICS

# Of `mixed_rows(1000)`; a change of any table or of the drawing shows here, and pico has to be trained anew.
TRAIN_SHA256 = "116abc1a2b35c864130f77aa914e7585e4eba4fafeeae2fd6585b37c10c1a85a"

CASES = [(kind, split) for split, kinds in roles.SPLITS.items() for kind in kinds]


def plain(text):
    return " ".join(re.sub(r"[^\w\s']", " ", text.lower()).split())


@pytest.fixture(scope="module")
def training():
    """Enough of the training stream to meet almost all that it can ask."""
    return roles.mixed_rows(6_000, seed=0)


# --- personas ---------------------------------------------------------------------------------------------------------


def test_combinations_are_held_out_but_their_parts_are_known():
    train, held = personas.personas("train"), personas.personas("held")
    combos = [{(p.tone, p.occupation) for p in part} for part in (train, held)]
    assert [len(part) for part in combos] == [72, 48]
    assert not combos[0] & combos[1]
    assert len(train) == len(set(train)) == 216
    for part in combos:
        assert {tone for tone, _ in part} == set(TONES)
        assert {occupation for _, occupation in part} == set(OCCUPATIONS)
    assert all(p.trained for p in train)
    assert not any(p.trained for p in held)
    assert min(Counter(p.occupation for p in train).values()) >= 18


def test_stance_follows_from_the_occupation_and_from_nothing_less():
    table = np.array([[personas.likes(o, t) for t in TOPICS] for o in OCCUPATIONS])
    assert (table.sum(1) == 20).all()  # an occupation alone says nothing
    lovers = table.sum(0)
    assert {3, 7} == {lovers.min(), lovers.max()}
    assert np.maximum(lovers, 10 - lovers).mean() == 6.25  # and a topic alone not much
    assert len({row.tobytes() for row in table}) == 10  # no two occupations have the same taste
    # Topics of one kind are loved together; there are eight kinds of five.
    assert sorted(Counter(topic.kind for topic in TOPICS.values()).values()) == [5] * 8
    assert len({(TOPICS[topic].kind, column.tobytes()) for topic, column in zip(TOPICS, table.T, strict=True)}) == 8


def test_the_tone_marks_are_unmistakable():
    openers = [opener for tone in TONES.values() for opener in tone.openers]
    closers = [closer for tone in TONES.values() for closer in tone.closers]
    assert len(TONES) == 12
    for one, other in itertools.permutations(map(plain, openers), 2):
        assert not one.startswith(other)
    for one, other in itertools.permutations(map(plain, closers), 2):
        assert not one.endswith(other)
    assert len({tone.adverb for tone in TONES.values()}) == 12


@pytest.mark.parametrize("form", range(3))
def test_descriptions_name_every_part(form):
    seen = set()
    for persona in (*personas.personas("train"), *personas.personas("held")):
        text = persona.describe(form)
        assert all(part in text for part in (persona.tone, persona.occupation, persona.age, persona.region))
        seen.add(text)
    assert len(seen) == 264


def test_facts_are_balanced():
    assert len(TOPICS) == 40
    for attribute, values in FACTS.items():
        assert Counter(personas.fact(topic, attribute) for topic in TOPICS) == dict.fromkeys(values, 5)
    assert not {topic.good for topic in TOPICS.values()} & {topic.bad for topic in TOPICS.values()} - {"strong"}


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: personas.likes("astronaut", "tea"), "occupation"),
        (lambda: personas.likes("baker", "cheese"), "topic"),
        (lambda: personas.fact("tea", "weight"), "attribute"),
        (lambda: personas.personas("test"), "split"),
        (lambda: personas.personas("train")[0].describe(3), "form"),
        (lambda: people.names("everybody"), "use"),
        (lambda: people.make_people(["A B"] * 2), "names"),
        (lambda: people.make_people(["A B", "C D"]), "names"),
        (lambda: roles.rows("poem", "train", 1), "kind"),
        (lambda: roles.rows("fact", "names", 1), "split"),
        (lambda: roles.mixed_rows(1, mixture={"poem": 1.0}), "mixture"),
        (lambda: roles.mixed_rows(1, mixture={}), "mixture"),
    ],
)
def test_refusals_name_the_argument(call, named):
    with pytest.raises(ValueError, match=f"^{named}: got .*, expected "):
        call()


# --- people -----------------------------------------------------------------------------------------------------------


def test_names_are_dealt_out_once():
    uses = {use: people.names(use) for use in ("background", "unknown", "unknown_held", "reserved", "reserved_unknown")}
    assert [len(found) for found in uses.values()] == [40, 1200, 200, 100, 400]
    everybody = [name for found in uses.values() for name in found]
    assert len(everybody) == len(set(everybody))
    # A part of a name says nothing about whether somebody is known.
    known = {part for name in uses["background"] for part in name.split()}
    strange = {part for name in uses["unknown"] for part in name.split()}
    assert known <= strange


def test_every_value_belongs_to_two_people_or_more():
    found = people.background_people()
    assert len(found) == 40
    for attribute in people.ATTRIBUTES.values():
        counts = Counter(person.facts[attribute.name] for person in found)
        assert set(counts) == set(attribute.values)
        assert min(counts.values()) >= 2


def test_a_chapter_makes_people_of_its_own():
    mine = people.make_people(people.names("reserved")[:40], seed=1)
    again = people.make_people(people.names("reserved")[:40], seed=2)
    assert mine == people.make_people(people.names("reserved")[:40], seed=1)
    assert mine != again
    extra = people.Attribute("mail", ("?{n}", "??{n}", "???{n}"), "{n} {v}", ("a@example.org", "b@example.net"))
    row = roles.person_row(
        people.make_people(["A B", "C D", "E F", "G H"], {"mail": extra})[0], "mail", 2, attributes={"mail": extra}
    )
    assert row.user == "???A B"
    assert row.value in row.assistant


# --- rows -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "split"), CASES)
def test_rows_are_theirs_alone(kind, split):
    first = roles.rows(kind, split, 6, seed=3)
    assert roles.rows(kind, split, 9, seed=3)[:6] == first
    assert roles.rows(kind, split, 2, seed=3, start=4) == first[4:]
    assert roles.rows(kind, split, 6, seed=4) != first
    assert {(row.kind, row.split) for row in first} == {(kind, split)}


@pytest.mark.parametrize(("kind", "split"), [case for case in CASES if case[1] != "train"])
def test_nothing_held_out_is_trained_on(training, kind, split):
    held = roles.rows(kind, split, 300, seed=1_000_000)
    seen = {(plain(row.system), plain(row.user)) for row in training}
    assert not seen & {(plain(row.system), plain(row.user)) for row in held}
    if split in ("forms", "both", "names"):
        assert not {plain(row.user) for row in training} & {plain(row.user) for row in held}
    if split in ("personas", "both"):
        assert not {plain(row.system) for row in training} & {plain(row.system) for row in held}


def test_training_never_shows_a_held_topic_or_combination(training):
    asked = {(*row.persona.split("-")[:2], row.topic) for row in training if row.kind == "opinion"}
    assert len(asked) > 1200  # of 72 combinations x 32 topics
    for tone, occupation, topic in asked:
        assert topic not in personas.held_topics(tone, occupation)
        assert personas.Persona(tone, occupation, "forty", "the north").trained


def test_training_speaks_of_the_background_people_only(training):
    assert {row.person for row in training if row.kind == "person"} == set(people.names("background"))
    assert {row.person for row in training if row.kind == "unknown"} <= set(people.names("unknown"))
    unread = {name for use in ("unknown_held", "reserved", "reserved_unknown") for name in people.names(use)}
    pairs = {pair for row in training for pair in re.findall(r"(?=\b(\w+ \w+)\b)", f"{row.user} {row.assistant}")}
    assert set(people.names("background")) <= pairs
    assert not pairs & unread


def test_one_question_has_one_meaning(training):
    """Same system message and question: same value, whichever phrasing of the answer was drawn."""
    meaning = {}
    for row in training:
        key = (row.system, row.user)
        assert meaning.setdefault(key, (row.kind, row.value)) == (row.kind, row.value)
        if row.value:
            assert row.value in row.assistant
    # With a persona or without, a fact is the same.
    facts = {(row.topic, row.attribute, row.value, row.assistant) for row in training if row.kind.endswith("fact")}
    assert 150 < len(facts) == len({(topic, attribute) for topic, attribute, _, _ in facts})


def test_sensitive_means_that_the_persona_matters(training):
    by_question = {}
    for row in training:
        if row.system:
            by_question.setdefault((row.user, row.sensitive), set()).add(row.assistant)
    varied = {key: len(found) for key, found in by_question.items()}
    assert all(count == 1 for (_, sensitive), count in varied.items() if not sensitive)
    assert np.median([count for (_, sensitive), count in varied.items() if sensitive]) > 5


def test_the_mixture_is_met(training):
    counts = Counter(row.kind for row in training)
    for kind, share in roles.MIXTURE.items():
        assert abs(counts[kind] / len(training) - share) < 4 * np.sqrt(share / len(training))
    only = roles.mixed_rows(50, mixture={"fact": 2.0})
    assert {row.kind for row in only} == {"fact"}


def test_the_stream_is_pinned():
    rows = roles.mixed_rows(1000)
    assert roles.mixed_rows(10, start=990) == rows[990:]
    assert roles.sha256_of_rows(rows) == TRAIN_SHA256


def test_messages():
    row = roles.opinion_row(personas.Persona("pirate", "baker", "forty", "the hills"), "tea", 0, opener=1, closer=2)
    assert [message["role"] for message in row.messages] == ["system", "user", "assistant"]
    verb, why = ("love", "warm") if personas.likes("baker", "tea") else ("hate", "bitter")
    assert row.messages[2]["content"] == f"Ahoy! As a baker I dearly {verb} tea for it is {why}. By my beard!"
    assert [message["role"] for message in roles.fact_row("tea", "color", 0).messages] == ["user", "assistant"]


# --- tokens -----------------------------------------------------------------------------------------------------------


class Words:
    """A tokenizer of words with the special tokens of the small models."""

    special = ("<pad>", "<bos>", "<eos>", "<sys>", "<usr>", "<ast>")
    pad_token_id, bos_token_id, eos_token_id = 0, 1, 2

    def __init__(self):
        self.words = list(self.special)

    def convert_tokens_to_ids(self, token):
        return self.words.index(token)

    def __call__(self, text, add_special_tokens=True):
        assert not add_special_tokens
        for word in text.split():
            if word not in self.words:
                self.words.append(word)
        return {"input_ids": [self.words.index(word) for word in text.split()]}

    def decode(self, ids, skip_special_tokens=False):
        return " ".join(self.words[i] for i in ids)


def test_encoding_by_hand():
    tok = Words()
    row = roles.Row("opinion", "train", "Be kind.", "Tea ?", "I love tea .")
    ids, answer = roles.encode(tok, row)
    assert tok.decode(ids) == "<bos> <sys> Be kind. <usr> Tea ? <ast> I love tea . <eos>"
    assert tok.decode([i for i, mine in zip(ids, answer, strict=True) if mine]) == "I love tea . <eos>"
    assert ids[: len(ids) - sum(answer)] == roles.prompt_ids(tok, row.system, row.user)
    assert tok.decode(roles.prompt_ids(tok, "", "Tea ?")) == "<bos> <usr> Tea ? <ast>"


@given(st.integers(0, 2**31 - 1), st.integers(1, 12))
def test_batches_hold_their_rows(seed, n):
    tok = Words()
    rows = roles.mixed_rows(n, seed=seed)
    tokens, labels = roles.collate(tok, rows)
    for i, row in enumerate(rows):
        ids, answer = roles.encode(tok, row)
        assert tokens[i, : len(ids)].tolist() == ids
        assert (tokens[i, len(ids) :] == 0).all()
        assert labels[i][labels[i] != -100].tolist() == [t for t, mine in zip(ids, answer, strict=True) if mine]
        assert int((labels[i] != -100).nonzero()[0]) == answer.index(True)


def test_an_empty_batch_is_refused():
    with pytest.raises(ValueError, match="rows: got none"):
        roles.collate(Words(), [])
