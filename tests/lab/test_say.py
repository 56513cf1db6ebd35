"""Sentences: every number named, given, finite and used."""

import math

import numpy as np
import pytest
import torch

from icml26 import lab


@pytest.fixture
def said(monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", shown.append)

    def call(template, /, **numbers):
        lab.say(template, **numbers)
        return shown[-1]._repr_markdown_()

    return call


@pytest.mark.parametrize(
    ("template", "numbers", "text"),
    [
        ("The slope is **{s:.2f}**.", {"s": -0.4987}, "The slope is **-0.50**."),
        ("{x}", {"x": 1 / 3}, "0.3333"),
        ("{n} of {n} runs", {"n": 5}, "5 of 5 runs"),
        ("{n:,}", {"n": np.int64(12345)}, "12,345"),
        ("{x:.1f}", {"x": np.float32(2.5)}, "2.5"),
        ("{x:.1f}", {"x": torch.tensor(2.5)}, "2.5"),
        ("{p:.0%}", {"p": 0.25}, "25%"),
        ("$\\frac{{1}}{{M}}$ = {x:g}", {"x": 0.5}, "$\\frac{1}{M}$ = 0.5"),
        ("{template:d}", {"template": 3}, "3"),
    ],
)
def test_sentences(said, template, numbers, text):
    assert said(template, **numbers) == text


@pytest.mark.parametrize(
    ("template", "numbers", "words"),
    [
        ("{}", {"x": 1}, "plain name"),
        ("{0}", {"x": 1}, "plain name"),
        ("{x.real}", {"x": 1}, "plain name"),
        ("{x[0]}", {"x": 1}, "plain name"),
        ("{x!r}", {"x": 1}, "plain format"),
        ("{x:{w}}", {"x": 1, "w": 3}, "plain format"),
        ("{x} {y}", {"x": 1}, r"no number given for \{y\}, only \['x'\]"),
        ("{x}", {"x": 1, "y": 2}, r"\['y'\] are given but not said"),
        ("no number", {}, "at least one number"),
        ("{x}", {"x": math.nan}, "x must be finite, got nan"),
        ("{x}", {"x": -math.inf}, "x must be finite"),
        ("{x", {"x": 1}, "expected '}'"),
    ],
)
def test_what_cannot_be_said(said, template, numbers, words):
    with pytest.raises(ValueError, match=words):
        said(template, **numbers)


@pytest.mark.parametrize("value", ["0.5", None, True, np.True_, [1.0]])
def test_only_numbers_are_numbers(said, value):
    with pytest.raises(TypeError):
        said("{x}", x=value)


def test_a_terminal_gets_the_same_words(capsys):
    lab.say("The slope is {s:.2f}.", s=1)
    assert capsys.readouterr().out == "The slope is 1.00.\n"
