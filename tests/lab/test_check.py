"""Exercise checks: right, wrong, broken, unanswered; and nothing that a student does raises."""

import math
import sys
from types import ModuleType

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from icml26 import lab
from icml26.lab.check import Exercise


def _mean(answer):
    value = answer([1.0, 2.0, 6.0])
    if value == 9.0:
        return "that is the sum, divide by the number of terms"
    return math.isclose(value, 3.0)


MEAN = Exercise(
    "mean",
    "The mean of a list",
    tests=[
        ("the mean of 1, 2, 6 is 3", _mean),
        ("the mean of one number is itself", lambda f: f([4.0]) == 4.0),
    ],
    hints=["sum, then divide", "think of the length"],
    wrong={"sum": sum, "fixed": lambda x: 3.0},
)
NUMBER = Exercise(
    "number", "A number", [("it is 2", lambda a: a == 2)], ["one and one"], {"three": 3, "text": "two"}
)


def test_a_right_answer(capsys):
    assert lab.check.run(MEAN, lambda x: sum(x) / len(x)) is True
    assert lab.check.run(NUMBER, 2) is True
    assert (
        capsys.readouterr().out == "✓ The mean of a list: all 2 checks passed\n✓ A number: the check passed\n"
    )


def _raises(error):
    def answer(x):
        raise error

    return answer


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (sum, "the mean of 1, 2, 6 is 3 — hint: that is the sum, divide by the number of terms"),
        (lambda x: 4.0, "the mean of 1, 2, 6 is 3 — hint: sum, then divide"),
        (lambda x: 3.0, "the mean of one number is itself — hint: think of the length"),
        (
            lambda x: x / 2,
            "the mean of 1, 2, 6 is 3 — it stopped with TypeError: unsupported operand type(s) "
            "for /: 'list' and 'int' — hint: sum, then divide",
        ),
        (_raises(ValueError("two\n  lines")), "ValueError: two lines — hint: sum, then divide"),
        (_raises(KeyError()), "it stopped with KeyError — hint: sum, then divide"),
        (_raises(SystemExit(3)), "it stopped with SystemExit: 3 — hint"),
        (_raises(ValueError("x" * 1000)), "x…"),
        (17, "it stopped with TypeError: 'int' object is not callable — hint"),
    ],
)
def test_a_wrong_answer_gets_one_line_with_a_hint(capsys, answer, line):
    assert lab.check.run(MEAN, answer) is False
    out = capsys.readouterr().out
    assert out.startswith("✗ not yet: ")
    assert line in out
    assert out.count("\n") == 1
    assert len(out) < 400


def test_endless_recursion_is_only_a_wrong_answer(capsys):
    def answer(x):
        return answer(x)

    assert lab.check.run(MEAN, answer) is False
    assert "RecursionError" in capsys.readouterr().out


def _stub(x):
    """Return the mean."""
    ...  # noqa: PIE790 - as students find it


def _stub_pass(x):
    pass


def _stub_none(x):
    return None


def _stub_raises(x):
    """Return the mean."""
    raise NotImplementedError


@pytest.mark.parametrize(
    "answer",
    [
        None,
        ...,
        NotImplemented,
        NotImplementedError,
        NotImplementedError("todo"),
        _stub,
        _stub_pass,
        _stub_none,
    ]
    + [_stub_raises, lambda x: ..., (..., 1), [None, None], {"a": ..., "b": 2}],
)
def test_a_stub_is_not_answered_yet(capsys, answer):
    assert lab.check.run(MEAN, answer) is False
    assert capsys.readouterr().out == "· not answered yet: The mean of a list — hint: sum, then divide\n"


@pytest.mark.parametrize("answer", [0, 0.0, False, "", [], (), {}, [None, 1], np.zeros(3), lambda x: 0])
def test_an_answer_that_looks_empty_is_still_an_answer(answer):
    assert lab.check.grade(NUMBER, answer).message.startswith("✗ not yet")


@pytest.mark.parametrize(
    ("outcome", "right"),
    [
        (True, True),
        (None, True),
        (np.True_, True),
        (torch.tensor(True), True),
        (np.array([True]), True),
        (False, False),
        (np.False_, False),
        (torch.tensor(False), False),
        ("too small", False),
        ("", False),
        (np.array([True, True]), False),  # a comparison that was not reduced decides nothing
        (torch.tensor([True, True]), False),
        (1, False),
        ([], False),
    ],
)
def test_what_a_test_may_return(outcome, right):
    exercise = Exercise("x", "X", [("it holds", lambda a: outcome)], ["look again"], {"w": 0})
    result = lab.check.grade(exercise, 1)
    assert result.right is right
    assert right or "hint: " in result.message


@given(
    st.recursive(st.none() | st.booleans() | st.floats() | st.text(), lambda s: st.lists(s) | st.tuples(s, s))
)
def test_nothing_raises(answer):
    for exercise in (MEAN, NUMBER):
        assert lab.check.grade(exercise, answer).right is (exercise is NUMBER and answer == 2)


def test_the_wrong_answers_fail():
    for exercise in (MEAN, NUMBER):
        for wrong in exercise.wrong.values():
            assert not lab.check.grade(exercise, wrong).right


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"id": ""}, "id of an exercise"),
        ({"title": " "}, "title of an exercise"),
        ({"tests": []}, "tests of exercise 'x' must not be empty"),
        ({"hints": []}, "hints of exercise 'x' must not be empty"),
        ({"wrong": {}}, "wrong of exercise 'x' must not be empty"),
        ({"hints": ["a", "b"]}, "2 hints for 1 tests"),
    ],
)
def test_an_exercise_is_complete(change, words):
    good = {"id": "x", "title": "X", "tests": [("t", bool)], "hints": ["h"], "wrong": {"w": 0}}
    with pytest.raises(ValueError, match=words):
        Exercise(**{**good, **change})


def test_answer_finds_the_chapter_s_exercise(monkeypatch, capsys):
    chapter, exercises = ModuleType("icml26.fake_chapter"), ModuleType("icml26.fake_chapter.exercises")
    chapter.__path__ = []
    exercises.EXERCISES = {"number": NUMBER}
    monkeypatch.setitem(sys.modules, "icml26.fake_chapter", chapter)
    monkeypatch.setitem(sys.modules, "icml26.fake_chapter.exercises", exercises)
    assert lab.check.answer("fake_chapter", "number", 2) is True
    assert lab.check.answer("fake_chapter", "number", 3) is False
    assert capsys.readouterr().out.splitlines()[1] == "✗ not yet: it is 2 — hint: one and one"
    with pytest.raises(ValueError, match="'nmber' is no exercise of fake_chapter, the exercises are number"):
        lab.check.answer("fake_chapter", "nmber", 2)
    with pytest.raises(ValueError, match="slug 'no_such_chapter'"):
        lab.check.answer("no_such_chapter", "number", 2)
