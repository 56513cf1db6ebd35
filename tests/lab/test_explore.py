"""`lab.explore`: the static slider, the live one, and the limits."""

import base64
import json
import re
import sys
from html.parser import HTMLParser

import matplotlib as mpl
import pytest

mpl.use("Agg")
import matplotlib.pyplot as plt

from icml26.lab.explore import MAX_STATES, _word, explore

PNG = re.compile(r'(base64,|"png": ")[A-Za-z0-9+/=]{40,}')  # what the notebooks' comparison masks


def waves(omega, noise=0.0):
    fig, axes = plt.subplots(figsize=(4, 2))
    axes.plot([0, omega], [noise, 1])
    print(f"mean {omega / 3 + noise:.4f}")
    return fig


class Page(HTMLParser):
    """Keeps what a reader without script has: pictures, inputs, visible text, and the data."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text, self.data, self.inside = [], [], "", []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("img", "input"):
            self.inside.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.inside.pop()[0] == tag  # well nested

    def handle_data(self, data):
        if self.inside and self.inside[-1][0] == "script":
            if self.inside[-1][1].get("type") == "application/json":
                self.data = data
        else:
            self.text.append(data)

    def all(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]


@pytest.fixture
def shown(monkeypatch):
    """What was displayed, as the HTML's text."""
    import IPython.display

    out = []
    monkeypatch.setattr(IPython.display, "display", lambda thing: out.append(getattr(thing, "data", "")))
    return out


@pytest.fixture
def static(monkeypatch, shown):
    monkeypatch.setenv("ICML26_STATIC", "1")
    return shown


def call(show=waves, **changes):
    arguments = {
        "start": {"omega": 2, "noise": 0.3},
        "caption": "A line.",
        "alt": "A rising line",
        "omega": [0.5, 1, 2],
        "noise": [0, 0.3],
    }
    explore(show, **(arguments | changes))


def test_without_script_the_start_state_is_complete(static):
    call()
    (page,) = map(Page, static)
    (image,) = page.all("img")
    assert image["alt"] == "A rising line (omega = 2, noise = 0.3)"
    assert base64.b64decode(image["src"].split("base64,")[1]).startswith(b"\x89PNG")
    text = "".join(page.text)
    assert "mean 0.9667" in text  # 2/3 + 0.3
    assert "A line." in text
    assert [slider["value"] for slider in page.all("input")] == ["2", "1"]
    assert [slider["aria-valuetext"] for slider in page.all("input")] == ["2", "0.3"]
    assert len(page.all("label")) == len(page.all("output")) == 2
    assert not page.inside


def test_frames_come_in_the_order_of_the_product(static):
    call()
    data = json.loads(Page(static[0]).data)
    assert data["values"] == [["0.5", "1", "2"], ["0", "0.3"]]
    numbers = [frame["text"] for frame in data["frames"]]
    assert numbers == [f"mean {o / 3 + n:.4f}" for o in (0.5, 1, 2) for n in (0, 0.3)]
    assert ["png" in frame for frame in data["frames"]] == [True] * 5 + [False]  # that one is the <img>


def test_output_is_the_same_twice_and_asks_nobody(static):
    call()
    call()
    assert static[0] == static[1]
    assert not re.search(r"https?:|//[a-z]|@import|url\(", PNG.sub("PICTURE", static[0]))


def test_masking_pictures_leaves_every_number(static):
    call()
    masked = PNG.sub("PICTURE", static[0])
    assert len(masked) < 6000
    for omega in (0.5, 1, 2):
        for noise in (0, 0.3):
            assert f"mean {omega / 3 + noise:.4f}" in masked


def test_the_mark_does_not_depend_on_what_was_measured(static):
    call()
    call(show=lambda omega, noise: (waves(omega, noise), f"differs {omega}"))
    marks = [re.search(r'data-explore="(\w+)"', page)[1] for page in static]
    assert marks[0] == marks[1]
    call(caption="Another.")
    assert re.search(r'data-explore="(\w+)"', static[2])[1] != marks[0]


def test_text_that_looks_like_markup_stays_text(static):
    nasty = '</script><b>&amp; "x" <!-- 1 < 2'

    def show(omega):
        return plt.figure(figsize=(2, 1)), nasty

    explore(
        show,
        start={"omega": 1},
        caption=nasty,
        alt=lambda omega: f'"{nasty}" {omega}',
        omega=[1, 2],
    )
    page = Page(static[0])
    assert nasty in "".join(page.text)
    assert page.all("img")[0]["alt"] == f'"{nasty}" 1'
    assert json.loads(page.data)["frames"][1]["text"] == nasty
    assert not page.all("b")


def test_figures_are_closed_and_others_left_alone(static):
    mine = plt.figure()
    call()
    assert plt.get_fignums() == [mine.number]
    plt.close(mine)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"omega": list(range(2, 18)), "noise": [0, 0.3]},
            rf"32 states \(16 omega x 2 noise\).*{MAX_STATES}",
        ),
        ({"start": {"omega": 2}}, r"start: got the names \['omega'\]"),
        ({"start": {"omega": 3, "noise": 0}}, r"omega = 3 is not among"),
        ({"caption": " "}, "caption"),
        ({"alt": ""}, "alt"),
        ({"alt": lambda omega, noise: ""}, "alt: returned ''"),
        ({"omega": []}, "omega"),
        ({"omega": "abc"}, "omega"),
        ({"omega": [2, 2.0000001]}, "reads the same twice"),
    ],
)
def test_wrong_arguments_are_named(static, changes, message):
    with pytest.raises(ValueError, match=message):
        call(**changes)
    assert not static


def test_no_choice_at_all(static):
    with pytest.raises(ValueError, match="choices: got none"):
        explore(lambda: None, start={}, caption="c", alt="a")


def test_too_many_bytes(static):
    import numpy as np

    def snow(omega):
        fig = plt.figure(figsize=(5, 4))
        fig.figimage(np.random.default_rng(omega).random((320, 400)))
        return fig

    with pytest.raises(ValueError, match=r"12 states give \d+ kB of HTML, expected at most 500 kB"):
        explore(snow, start={"omega": 0}, caption="Snow.", alt="Snow", omega=range(12))


@pytest.mark.parametrize("result", [None, 3, (1, 2, 3)])
def test_show_must_give_a_figure(static, result):
    with pytest.raises(TypeError, match=r"show: returned .* at \{'omega': 0.5, 'noise': 0\}"):
        call(show=lambda omega, noise: result)


def test_a_second_figure_is_not_dropped_silently(static):
    def show(omega, noise):
        plt.figure()
        return plt.figure()

    with pytest.raises(ValueError, match="drew 2 figures"):
        call(show=show)
    assert plt.get_fignums() == []


def test_an_error_in_show_comes_through_and_leaves_no_figure(static):
    def show(omega, noise):
        plt.figure()
        if omega == 1:
            raise ZeroDivisionError("in the callback")
        return plt.gcf()

    with pytest.raises(ZeroDivisionError, match="in the callback"):
        call(show=show)
    assert plt.get_fignums() == []


def test_live_sliders_redraw(monkeypatch, shown):
    """The live branch with stub widgets of the kind that ipywidgets 7.7 and 8 both offer."""
    import types

    made = {}

    class SelectionSlider:
        def __init__(self, *, options, value, description, continuous_update, style):
            assert value in [v for _, v in options]
            self.options, self.value, self.description = options, value, description

    def interact(draw, **sliders):
        made.update(sliders, draw=draw)
        draw(**{name: slider.value for name, slider in sliders.items()})

    stub = types.SimpleNamespace(SelectionSlider=SelectionSlider, interact=interact)
    monkeypatch.setitem(sys.modules, "ipywidgets", stub)
    monkeypatch.delenv("ICML26_STATIC", raising=False)
    call()
    assert made["omega"].options == [("0.5", 0.5), ("1", 1), ("2", 2)]
    made["draw"](omega=0.5, noise=0)
    pages = [Page(text) for text in shown]
    assert [page.all("img")[0]["alt"] for page in pages] == [
        "A rising line (omega = 2, noise = 0.3)",
        "A rising line (omega = 0.5, noise = 0)",
    ]
    assert "mean 0.9667" in "".join(pages[0].text)
    assert "mean 0.1667" in "".join(pages[1].text)
    assert not pages[0].all("script")
    assert plt.get_fignums() == []


def test_live_with_the_installed_ipywidgets(monkeypatch, shown):
    ipywidgets = pytest.importorskip("ipywidgets")
    kept = {}
    real = ipywidgets.interact

    def interact(draw, **sliders):
        kept.update(sliders)
        return real(draw, **sliders)

    monkeypatch.setattr(ipywidgets, "interact", interact)
    monkeypatch.delenv("ICML26_STATIC", raising=False)
    call()
    assert [slider.value for slider in kept.values()] == [2, 0.3]
    with pytest.raises(Exception, match="Invalid selection"):
        kept["omega"].value = 17


def test_word():
    assert [_word(v) for v in (1e-9, 0.1 + 0.2, 3, True, "a b", None)] == [
        "1e-09",
        "0.3",
        "3",
        "True",
        "a b",
        "None",
    ]


def test_integers_are_shown_in_full():
    assert [_word(value) for value in (2**20, 10**6, 1e6, 0.1)] == ["1048576", "1000000", "1e+06", "0.1"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"noise": (value for value in (0, 1))}, "noise"),
        ({"noise": 3}, "noise"),
        ({"caption": None}, "caption"),
        ({"alt": 5}, "alt"),
    ],
)
def test_what_is_of_another_type_is_named(changes, words):
    given = {"start": {"noise": 0}, "caption": "c", "alt": "a", "noise": [0, 1]} | changes
    with pytest.raises(TypeError, match=words):
        explore(waves, **given)
