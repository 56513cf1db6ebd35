"""Source: what is shown is the code that runs."""

import ast
import functools
import inspect
import textwrap
from types import SimpleNamespace

import pytest

from icml26 import lab
from icml26.lab import profile, seed


def plain(x):
    """Twice x.

    With more words on it.
    """
    return 2 * x  # a comment stays


def late(x):
    r"""
    Half of x, $\frac{x}{2}$.

    More.
    """
    return x / 2


@functools.lru_cache
def cached(x):
    """One line."""
    return x


class Thing:
    """A thing.

    Long story.
    """

    @property
    def size(self):
        """Its size.

        In metres.
        """
        return """not a docstring
        at all"""


FENCE = "```"


def ticks():
    return "```"


@pytest.fixture
def shown(monkeypatch):
    found = []
    monkeypatch.setattr("IPython.display.display", found.append)

    def call(*objects, **options):
        lab.show_source(*objects, **options)
        return found[-1]._repr_markdown_()

    return call


def _code(text):
    fence, *lines, last = text.split("\n")
    assert fence == last + "python"
    return "\n".join(lines)


def test_the_code_is_the_file_s(shown):
    code = _code(shown(plain, Thing))
    assert code == inspect.getsource(plain).rstrip() + "\n\n\n" + inspect.getsource(Thing).rstrip()
    assert _code(shown(profile)) == inspect.getsource(profile).rstrip()


def test_docstrings_are_cut_to_their_first_line(shown):
    assert _code(shown(plain, doc=False)) == (
        'def plain(x):\n    """Twice x."""\n    return 2 * x  # a comment stays'
    )
    assert _code(shown(late, doc=False)) == (
        'def late(x):\n    r"""Half of x, $\\frac{x}{2}$."""\n    return x / 2'
    )
    thing = _code(shown(Thing, doc=False))
    assert '"""A thing."""' in thing
    assert '"""Its size."""' in thing
    assert "not a docstring\n" in thing
    assert _code(shown(cached, doc=False)).count('"""One line."""') == 1


@pytest.mark.parametrize("thing", [profile, seed, profile.choose, seed.seed_all, profile.Profile])
def test_cutting_leaves_the_code_itself_alone(shown, thing):
    """The syntax tree without docstrings is the same before and after."""

    def bare(code):
        tree = ast.parse(textwrap.dedent(code))
        for node in ast.walk(tree):
            if isinstance(getattr(node, "body", None), list) and ast.unparse(node.body[:1]).startswith(
                ("'", '"')
            ):
                node.body = node.body[1:]
        return ast.dump(tree)

    short = _code(shown(thing, doc=False))
    assert bare(short) == bare(inspect.getsource(inspect.unwrap(thing)))
    assert len(short) < len(inspect.getsource(inspect.unwrap(thing)))


def test_wrappers_are_seen_through(shown):
    assert "return x" in shown(cached)
    assert "not a docstring" in shown(Thing.size)
    kernel = SimpleNamespace(fn=plain)  # how Triton keeps a kernel's Python
    assert _code(shown(kernel)) == inspect.getsource(plain).rstrip()


def test_the_fence_is_longer_than_any_inside(shown):
    assert shown(ticks).startswith("````python\n")


def test_what_has_no_source(shown):
    with pytest.raises(ValueError, match="at least one"):
        shown()
    for thing in (3, "text", len, SimpleNamespace()):
        with pytest.raises(TypeError, match="objects must be functions, classes or modules"):
            shown(thing)
    scope: dict = {}
    exec("def made():\n    pass", scope)
    with pytest.raises(ValueError, match="no source file holds"):
        shown(scope["made"])


class Leftmost:
    def method(self):
        """The first line.

Words at the left edge, as a text pasted from elsewhere.
        """
        return 1


def test_a_docstring_at_the_left_edge_is_cut_too(shown):
    code = _code(shown(Leftmost.method, doc=False))
    ast.parse(code)
    assert code.splitlines() == ["def method(self):", '    """The first line."""', "    return 1"]
