"""Docstrings are shown as they are written: nothing lost, nothing taken for markup, no warning."""

import importlib.util
import re
from pathlib import Path

import docutils.core
import docutils.nodes
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[2]


def load():
    path = ROOT / "book" / "_extensions" / "plain_docstrings.py"
    spec = importlib.util.spec_from_file_location("plain_docstrings", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


convert = load().convert


def tree(text):
    """The document that docutils makes; any warning is an error."""
    rest = "\n".join(convert(text.split("\n")))
    options = {"halt_level": 2, "report_level": 2, "warning_stream": False, "doctitle_xform": False}
    return docutils.core.publish_doctree(rest, settings_overrides=options)


def squeeze(text):
    return "".join(text.split())


@pytest.mark.parametrize(
    "text",
    [
        "The norm |x| of x, a power 2**n, a name_ and another_one_.",
        "kets |x⟩|0⟩ → |x⟩ Σ_y √p(y|x) |y⟩",
        "- one",
        "A. Somebody wrote this.",
        ".. not a comment",
        ":not: a field",
        "a path C:\\new and a * star",
        "it ends with two colons::",
        "--option is no option",
        "| not a line block",
        "+---+",
        "=====",
        "[1] is no footnote, [2]_ neither",
        "https://example.org/a_b_c is an address.",
    ],
)
def test_signs_stay_signs(text):
    shown = tree(text).astext()
    assert squeeze(shown) == squeeze(re.sub(r"^- ", "", text))


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="ab1 .:_-+=|\\[](){}<>#'\"~^&", min_size=1, max_size=60))
@example("a_ |b| \\")
@example("_ _")
def test_a_line_without_our_markup_is_shown_as_it_is(line):
    assert squeeze(tree("Text. " + line).astext()) == squeeze("Text. " + line)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(alphabet="ab :-*`$_|1.\n", max_size=40), max_size=6).map("\n".join))
@example("Args:\n    a")
@example("- a\n\n      b\n\n  c")
@example("Parameters\n----------\na : b\n\nc")
@example("```")
@example("~~~\n\n~~~\na")
def test_no_docstring_makes_a_warning(text):
    tree(text)


def test_markdown_inside_a_paragraph():
    document = tree("Use `f(x)|y` or ``g``, $a_{b}$, *soft* and **loud**; `Claim`s too.")
    assert [n.astext() for n in document.findall(docutils.nodes.literal)] == ["f(x)|y", "g", "Claim"]
    assert [n.astext() for n in document.findall(docutils.nodes.math)] == ["a_{b}"]
    assert [n.astext() for n in document.findall(docutils.nodes.emphasis)] == ["soft"]
    assert [n.astext() for n in document.findall(docutils.nodes.strong)] == ["loud"]
    assert document.astext().endswith("Claims too.")


def test_lists_blocks_and_doctests():
    document = tree(
        "Three of them:\n- first\n  goes on\n- second\n\n      C(0) = |Est|_1\n\n  and its end\n\nThen\n\n"
        "    x_1 = **y**\n\n>>> 1 + 1\n2\n\n1. one\n2. two\n"
    )
    lists = [[item.astext() for item in found] for found in document.findall(docutils.nodes.bullet_list)]
    assert lists == [["first goes on", "second\n\nC(0) = |Est|_1\n\nand its end"]]
    assert len(list(document.findall(docutils.nodes.enumerated_list))) == 1
    assert [n.astext() for n in document.findall(docutils.nodes.doctest_block)] == [">>> 1 + 1\n2"]


@pytest.mark.parametrize(
    "text",
    [
        "Do.\n\nArgs:\n    a, b: two |n|, x_\n        go on.\n    *rest: others.\n\n"
        "Returns:\n    A sum: of a_.\n\nRaises:\n    ValueError: wrong.\n",
        "Do.\n\nParameters\n----------\na, b : two |n|, x_\n    go on.\n*rest : others.\n\nReturns\n-------\n"
        "A sum: of a_.\n\nRaises\n------\nValueError : wrong.\n",
    ],
    ids=["google", "numpy"],
)
def test_both_forms_of_sections_become_the_same_fields(text):
    fields = [(f[0].astext(), squeeze(f[1].astext())) for f in tree(text).findall(docutils.nodes.field)]
    assert fields == [
        ("param a", "two|n|,x_goon."),
        ("param b", "two|n|,x_goon."),
        ("param rest", "others."),
        ("returns", "Asum:ofa_."),
        ("raises ValueError", "wrong."),
    ]


def test_prose_after_numpy_parameters_is_a_paragraph_of_its_own():
    document = tree(
        "Do.\n\nParameters\n----------\na : one.\n\nReturns a folder: with `b`. Raises ValueError (c)."
    )
    assert [p.astext() for p in document if isinstance(p, docutils.nodes.paragraph)][-1].startswith(
        "Returns a folder"
    )
