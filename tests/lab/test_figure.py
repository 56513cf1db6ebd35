"""Figures: one piece of HTML with words for everybody, and one style."""

import base64
import re
import struct
from html.parser import HTMLParser

import matplotlib as mpl
import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell
from matplotlib import pyplot as plt

from icml26 import lab


@pytest.fixture
def shown(monkeypatch):
    found = []
    monkeypatch.setattr("IPython.display.display", found.append)
    return found


def _figure():
    fig, axes = plt.subplots()
    axes.plot([1, 2, 3])
    return fig


class _Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found, self.text = {}, ""

    def handle_starttag(self, tag, attrs):
        self.found[tag] = dict(attrs)

    def handle_data(self, data):
        self.text += data


def test_one_html_output_with_caption_and_alt(shown):
    fig = _figure()
    lab.figure(fig, caption='Error & cost, "log" axes', alt='Two lines: the <upper> is "flat"')
    (picture,) = shown
    tags = _Tags()
    tags.feed(picture._repr_html_())
    assert list(tags.found) == ["figure", "img", "figcaption"]
    assert tags.found["figure"]["class"] == "lab-figure"
    assert tags.found["img"]["alt"] == 'Two lines: the <upper> is "flat"'
    assert tags.text == 'Error & cost, "log" axes'
    style = tags.found["img"]["style"]
    assert {"max-width:100%", "height:auto", "background:#fff", "border-radius:8px"} <= set(style.split(";"))
    assert "color:inherit" in tags.found["figcaption"]["style"]
    assert repr(picture) == '<figure: Two lines: the <upper> is "flat">'
    assert not plt.fignum_exists(fig.number)
    data = base64.b64decode(tags.found["img"]["src"].removeprefix("data:image/png;base64,"))
    assert data.startswith(b"\x89PNG")
    assert b"matplotlib" not in data.lower()


def test_the_same_drawing_gives_the_same_bytes(shown):
    for _ in range(2):
        lab.figure(_figure(), caption="c", alt="a")
    assert shown[0]._repr_html_() == shown[1]._repr_html_()


def test_the_picture_is_masked_in_stored_outputs(shown):
    lab.figure(_figure(), caption="c", alt="a")
    page = re.sub(r'(base64,|"png": ")[A-Za-z0-9+/=]{40,}', "PICTURE", shown[0]._repr_html_())
    assert not re.search(r"\d{3,}(?!%)", page)  # no pixel sizes, which differ between builds


@pytest.mark.parametrize(("caption", "alt", "words"), [("", "a", "caption"), ("c", " \n", "alt")])
def test_words_are_needed(shown, caption, alt, words):
    with pytest.raises(ValueError, match=f"{words} must not be empty"):
        lab.figure(_figure(), caption=caption, alt=alt)
    assert shown == []
    plt.close("all")


def test_a_picture_that_is_too_heavy(shown):
    fig, axes = plt.subplots()
    axes.imshow(np.random.default_rng(0).random((500, 500, 3)))
    fig.set_size_inches(9, 9)
    with pytest.raises(ValueError, match="the limit is 300,000"):
        lab.figure(fig, caption="c", alt="a")
    assert not plt.fignum_exists(fig.number)


def test_only_figures(shown):
    fig = _figure()
    with pytest.raises(TypeError, match="Figure"):
        lab.figure(fig.axes[0], caption="c", alt="a")
    plt.close(fig)


def test_style_sets_and_restores(shown):
    before = dict(mpl.rcParams)
    with lab.style():
        assert list(mpl.rcParams["figure.figsize"]) == [7.0, 3.6]
        lab.figure(_figure(), caption="c", alt="a")
    assert dict(mpl.rcParams) == before
    page = shown[0]._repr_html_()
    data = base64.b64decode(re.search(r"base64,([^\"]+)", page).group(1))
    width, height = struct.unpack(">II", data[16:24])
    assert width == pytest.approx(770, rel=0.05)
    assert height == pytest.approx(396, rel=0.05)
    # On a phone of 390 px the smallest text is still 8 px high.
    applied = lab.style()
    try:
        points = min(mpl.rcParams[name] for name in ("xtick.labelsize", "ytick.labelsize", "legend.fontsize"))
        assert points / 72 * 110 * 358 / width > 8
    finally:
        applied.__exit__(None, None, None)


def test_a_set_up_cell_may_end_with_style():
    shell = InteractiveShell.instance()
    with lab.style() as applied:
        assert shell.display_formatter.format(applied) == ({}, {})
    InteractiveShell.clear_instance()


def _luminance(colour):
    channels = np.array(mpl.colors.to_rgb(colour))
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


def test_every_line_colour_stands_out_from_the_white_card():
    """WCAG contrast; yellow (1.3) is named but not cycled."""
    with lab.style():
        cycle = mpl.rcParams["axes.prop_cycle"].by_key()["color"]
    assert cycle == [c for name, c in lab.COLOURS.items() if name != "yellow"]
    contrasts = [1.05 / (_luminance(colour) + 0.05) for colour in cycle]
    assert min(contrasts) > 2
    assert min(contrasts[:3]) > 3


def test_the_first_line_colours_differ_without_red_or_green_cones():
    """Machado et al. (2009), complete protanopia and deuteranopia, in linear RGB."""
    protan = [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ]
    deutan = [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ]
    colours = np.array([mpl.colors.to_rgb(c) for name, c in lab.COLOURS.items() if name != "yellow"][:5])
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    for matrix in (protan, deutan):
        seen = linear @ np.array(matrix).T
        apart = np.linalg.norm(seen[:, None] - seen[None], axis=-1)[np.triu_indices(len(seen), 1)]
        assert apart.min() > 0.08


@pytest.mark.parametrize("words", [{"caption": None, "alt": "a"}, {"caption": "c", "alt": 3}])
def test_words_are_texts(shown, words):
    fig = _figure()
    with pytest.raises(TypeError):
        lab.figure(fig, **words)
    plt.close(fig)
