"""The judges of role-play: calibrated on right, foreign, shuffled and generic answers."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from icml26.language import personas, role_check, roles
from icml26.language.personas import OCCUPATIONS, TONES, TOPICS, Persona
from icml26.language.role_check import Style, grade, is_abstention, persona_of, style_judge, value_leak

PIRATE = Persona("pirate", "baker", "forty", "the hills")


@pytest.fixture(scope="module")
def asked():
    return roles.rows("opinion", "personas", 400, seed=7)


def mean_score(rows, said):
    return np.mean(
        [style_judge(persona_of(row), row.topic, answer).score for row, answer in zip(rows, said, strict=True)]
    )


def test_own_answers_score_100(asked):
    assert mean_score(asked, [row.assistant for row in asked]) == 100


def test_answers_of_other_personas_score_little(asked):
    # Whoever differs in tone and occupation gets nothing at all.
    foreign = []
    for row in asked:
        persona = persona_of(row)
        tone = list(TONES)[(list(TONES).index(persona.tone) + 1) % len(TONES)]
        job = OCCUPATIONS[(OCCUPATIONS.index(persona.occupation) + 1) % len(OCCUPATIONS)]
        foreign.append(roles.opinion(Persona(tone, job, "forty", "the hills"), row.topic))
    assert mean_score(asked, foreign) == 0
    # The answers of the rows in another order: one tone in twelve agrees by chance, and gives opener and closer.
    order = np.random.default_rng(0).permutation(len(asked))
    shuffled = mean_score(asked, [asked[i].assistant for i in order])
    assert 2 < shuffled < 12


def test_the_same_tone_in_another_occupation_loses_the_stance(asked):
    agreed = set()
    for row in asked[:60]:
        persona = persona_of(row)
        for job in OCCUPATIONS:
            style = style_judge(persona, row.topic, roles.opinion(Persona(persona.tone, job, "forty", ""), row.topic))
            same = personas.likes(job, row.topic) == personas.likes(persona.occupation, row.topic)
            assert style == Style(opener=True, closer=True, stance=same)
            agreed.add(same)
    assert agreed == {True, False}


def test_generic_answers_score_0(asked):
    assert mean_score(asked, [roles.neutral_row(row.topic, 0).assistant for row in asked]) == 0
    assert mean_score(asked, [""] * len(asked)) == 0


@given(st.sampled_from(list(TONES)), st.sampled_from(OCCUPATIONS), st.sampled_from(list(TOPICS)), st.integers(0, 8))
def test_each_part_is_judged_by_itself(tone, occupation, topic, ends):
    persona = Persona(tone, occupation, "forty", "the hills")
    answer = roles.opinion(persona, topic, *divmod(ends, 3))
    assert style_judge(persona, topic, f"  {answer.upper()}\n") == Style(True, True, True)
    assert style_judge(persona, topic, f"Hm. {answer}") == Style(False, True, True)
    assert style_judge(persona, topic, f"{answer} Hm.") == Style(True, False, True)
    swapped = answer.translate(str.maketrans({})).replace(" love ", " ? ").replace(" hate ", " love ")
    swapped = swapped.replace(" ? ", " hate ")
    assert style_judge(persona, topic, swapped) == Style(True, True, False)


def test_value_leak_wants_whole_words():
    assert value_leak("1954", "Selka Zabor was born in 1954.")
    assert not value_leak("1954", "Selka Zabor was born in 19545.")
    assert value_leak("the glass river", "It is The  Glass River.")
    assert not value_leak("art", "The party starts.")
    assert value_leak("a+b", "(a+b)")
    with pytest.raises(ValueError, match="value"):
        value_leak(" ", "anything")


def test_abstentions():
    assert all(map(is_abstention, roles.ABSTENTIONS))
    assert is_abstention("Well, I DON'T know.")
    assert not is_abstention("I know him well; he was born in 1954.")
    assert not is_abstention("")
    answered = [row.assistant for kind in roles.KINDS if kind != "unknown" for row in roles.rows(kind, "train", 50)]
    assert not any(map(is_abstention, answered))


@pytest.mark.parametrize("kind", roles.KINDS)
def test_grades_of_right_and_wrong_answers(kind):
    rows = roles.rows(kind, "forms", 50, seed=5)
    assert [grade(row, row.assistant) for row in rows] == [1.0] * 50
    assert max(grade(row, "A dog ran home.") for row in rows) == 0


def test_persona_of_goes_back_and_forth():
    assert all(persona_of(roles.opinion_row(p, "tea", 0)) == p for p in personas.personas("train"))
    with pytest.raises(ValueError, match="persona"):
        persona_of(roles.fact_row("tea", "color", 0))


def test_answers_are_greedy():
    """Against the plainest loop: one row, one token at a time, no cache."""
    pytest.importorskip("transformers", reason="pip install 'icml26[language]'")
    from icml26.language.pretraining import PICO
    from icml26.language.tokenizer import small_tokenizer

    tok, model = small_tokenizer(), PICO.model(0).eval()
    rows = roles.mixed_rows(5)
    expected = []
    for row in rows:
        ids = roles.prompt_ids(tok, row.system, row.user)
        start = len(ids)
        while len(ids) < start + 6 and ids[-1] != tok.eos_token_id:
            with torch.no_grad():
                ids.append(int(model(input_ids=torch.tensor([ids])).logits[0, -1].argmax()))
        expected.append(tok.decode(ids[start:], skip_special_tokens=True))
    assert role_check.answers(model, tok, rows, max_new_tokens=6, batch_size=2) == expected
    assert role_check.answers(model, tok, []) == []
    assert role_check.answers(model.train(), tok, rows, max_new_tokens=6) == expected
    assert model.training


def test_prompts_are_those_of_the_chat():
    pytest.importorskip("transformers", reason="pip install 'icml26[language]'")
    from icml26.language.chat import chat_ids
    from icml26.language.tokenizer import small_tokenizer

    tok = small_tokenizer()
    for row in roles.mixed_rows(200):
        assert chat_ids(tok, row.messages[:-1]) == roles.prompt_ids(tok, row.system, row.user)
        whole = tok.apply_chat_template(row.messages, tokenize=True, return_dict=True)["input_ids"]
        assert whole == roles.encode(tok, row)[0]


def test_a_foreign_tokenizer_speaks_by_its_own_template():
    pytest.importorskip("transformers", reason="pip install 'icml26[language]'")
    from icml26.language.smollm2 import CHAT_TEMPLATE
    from icml26.language.tokenizer import small_tokenizer

    tok = small_tokenizer()
    tok.chat_template = CHAT_TEMPLATE
    row = roles.mixed_rows(1)[0]
    ids, answer = roles.encode(tok, row)
    said = (("system", row.system), ("user", row.user))
    prompt = "".join(f"<|im_start|>{role}\n{text}<|im_end|>\n" for role, text in said) + "<|im_start|>assistant\n"
    assert (
        ids[: answer.index(True)]
        == tok.apply_chat_template(
            [{"role": "system", "content": row.system}, row.messages[-2]], add_generation_prompt=True, return_dict=True
        )["input_ids"]
    )
    assert tok.decode(ids, skip_special_tokens=True) == prompt + row.assistant
    tok.chat_template = None
    with pytest.raises(ValueError, match="tok: has no chat_template"):
        roles.encode(tok, row)


def test_likelihoods_are_those_of_the_training_loss():
    pytest.importorskip("transformers", reason="pip install 'icml26[language]'")
    from icml26.language.pretraining import PICO
    from icml26.language.tokenizer import small_tokenizer

    tok, model = small_tokenizer(), PICO.model(0).eval()
    rows = roles.mixed_rows(6)
    found = roles.likelihoods(model, tok, rows, batch_size=4)
    for i, row in enumerate(rows):
        tokens, labels = roles.collate(tok, [row])
        with torch.no_grad():
            loss = float(model(input_ids=tokens, labels=labels).loss)
        assert found.mean[i] == pytest.approx(-loss, abs=1e-4)
        assert found.tokens[i] == int((labels != roles.IGNORED).sum())


def test_typographic_apostrophes_abstain_too():
    assert is_abstention("I don\u2019t know.")
