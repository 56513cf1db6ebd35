"""A figure with sliders that works with a kernel and without.

With a kernel the sliders are ipywidgets and `show` runs at every move. With `ICML26_STATIC=1`, which is
how the book's notebooks are executed, `show` runs once for every combination and the pictures go into one
self-contained piece of HTML: native range inputs, a dozen lines of script, no request to anywhere. Where
scripts are stripped, the start state is still there as picture and text.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import html
import io
import itertools
import json
import math
import numbers
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["MAX_BYTES", "MAX_STATES", "explore"]

MAX_STATES = 30
MAX_BYTES = 500_000
_DPI = 80

_CARD = "max-width:100%;height:auto;background:#fff;border-radius:6px;padding:4px;box-sizing:border-box"
_SCRIPT = """(function () {
  document.querySelectorAll('[data-explore="%s"]:not([data-ready])').forEach(function (root) {
    root.setAttribute("data-ready", "");
    var data = JSON.parse(root.querySelector('script[type="application/json"]').textContent);
    var inputs = root.querySelectorAll("input"), img = root.querySelector("img");
    var pre = root.querySelector("pre"), first = img.src;
    function show() {
      var k = 0;
      inputs.forEach(function (input, i) {
        var word = data.values[i][input.value];
        k = k * data.values[i].length + Number(input.value);
        input.nextElementSibling.textContent = word;
        input.setAttribute("aria-valuetext", word);
      });
      var frame = data.frames[k];
      img.src = frame.png ? "data:image/png;base64," + frame.png : first;
      img.alt = frame.alt;
      pre.textContent = frame.text;
      pre.hidden = !frame.text;
    }
    inputs.forEach(function (input) { input.addEventListener("input", show); });
    show();
  });
})();"""


@dataclass(frozen=True)
class _Frame:
    png: str  # base64
    text: str
    alt: str


def explore(
    show: Callable[..., Any],
    *,
    start: Mapping[str, Any],
    caption: str,
    alt: str | Callable[..., str],
    **choices: Sequence[Any],
) -> None:
    """Display `show` with one slider per choice.

    Parameters
    ----------
    show : called with one keyword per choice. Returns one matplotlib figure, or `(figure, text)`; what it
        prints is shown too, under the picture.
    start : the state seen first (and the only one where scripts are stripped): one value per choice.
    caption : one sentence below the figure.
    alt : what the picture shows, in words: a text (the state is added to it), or a function of the state.
    **choices : the values of each slider, in order: `noise=[0, 0.3, 1]`. At least one; numbers, texts or
        booleans.

    Raises ValueError for a wrong start or empty caption, for more than 30 states and for more than
    500 kB of HTML (static only); TypeError when a caption is no text, a choice no sequence, or when `show`
    returns something else. An exception in `show` is
    raised at the state where it happens.
    """
    words = _checked(start, caption, alt, choices)
    if _static():
        from IPython.display import HTML, display

        display(HTML(_static_html(show, dict(start), caption, alt, choices, words)))  # type: ignore[no-untyped-call]
    else:
        _live(show, dict(start), caption, alt, choices, words)


def _static() -> bool:
    return os.environ.get("ICML26_STATIC", "") not in ("", "0")


def _checked(
    start: Mapping[str, Any], caption: str, alt: str | Callable[..., str], choices: dict[str, Sequence[Any]]
) -> dict[str, list[str]]:
    """The values as words, per choice; raises for everything that is wrong before `show` is run."""
    if not choices:
        raise ValueError("choices: got none, expected at least one, such as noise=[0, 0.3, 1]")
    for argument, text in (("caption", caption), ("alt", alt)):
        if not isinstance(text, str) and not (argument == "alt" and callable(text)):
            raise TypeError(f"{argument}: got {type(text).__name__} {text!r}, expected a text")
    if not caption.strip():
        raise ValueError("caption: got an empty text, expected one sentence")
    if isinstance(alt, str) and not alt.strip():
        raise ValueError("alt: got an empty text, expected what the picture shows, in words")
    words = {}
    for name, values in choices.items():
        if not isinstance(values, str) and not (hasattr(values, "__len__") and hasattr(values, "__getitem__")):
            raise TypeError(f"{name}: got {type(values).__name__}, expected a sequence such as a list")
        if isinstance(values, str) or len(values) == 0:
            raise ValueError(f"{name}: got {values!r}, expected a sequence of at least one value")
        words[name] = [_word(value) for value in values]
        if len(set(words[name])) != len(words[name]):
            raise ValueError(f"{name}: got {list(values)!r}, which reads the same twice on the slider")
    if set(start) != set(choices):
        raise ValueError(f"start: got the names {sorted(start)}, expected {sorted(choices)}")
    for name, value in start.items():
        if value not in list(choices[name]):
            raise ValueError(f"start: {name} = {value!r} is not among its choices {list(choices[name])!r}")
    states = math.prod(len(values) for values in choices.values())
    if states > MAX_STATES:
        sizes = " x ".join(f"{len(values)} {name}" for name, values in choices.items())
        raise ValueError(f"choices: got {states} states ({sizes}), expected at most {MAX_STATES}")
    return words


def _word(value: Any) -> str:
    if isinstance(value, bool | str | numbers.Integral):
        return str(value)
    try:
        return f"{value:.6g}"
    except (TypeError, ValueError):
        return str(value)


def _frame(show: Callable[..., Any], alt: str | Callable[..., str], state: dict[str, Any]) -> _Frame:
    """Run `show` at one state and keep what it drew and said."""
    import matplotlib.pyplot as plt
    from matplotlib.figure import Figure

    before = set(plt.get_fignums())
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            result = show(**state)
        figure, told = result if isinstance(result, tuple) and len(result) == 2 else (result, "")
        if not isinstance(figure, Figure) or not isinstance(told, str):
            raise TypeError(
                f"show: returned {type(result).__name__} at {state}, expected a matplotlib figure "
                "or (figure, text)"
            )
        extra = {number for number in set(plt.get_fignums()) - before if plt.figure(number) is not figure}
        if extra:
            raise ValueError(f"show: drew {len(extra) + 1} figures at {state}, expected one")
        buffer = io.BytesIO()
        # Without the "Software" entry the bytes do not depend on the matplotlib version's name.
        figure.savefig(buffer, format="png", dpi=_DPI, facecolor="white", metadata={"Software": None})
    finally:
        for number in set(plt.get_fignums()) - before:
            plt.close(number)
    text = "\n".join(part for part in (printed.getvalue().rstrip(), told.rstrip()) if part)
    return _Frame(base64.b64encode(buffer.getvalue()).decode(), text, _alt(alt, state))


def _alt(alt: str | Callable[..., str], state: dict[str, Any]) -> str:
    if callable(alt):
        words = alt(**state)
        if not isinstance(words, str) or not words.strip():
            raise ValueError(f"alt: returned {words!r} at {state}, expected a text")
        return words
    values = ", ".join(f"{name.replace('_', ' ')} = {_word(value)}" for name, value in state.items())
    return f"{alt.rstrip('. ')} ({values})"


def _picture(frame: _Frame, caption: str, controls: str = "", rest: str = "", attributes: str = "") -> str:
    """The HTML around one frame. `dark-light` tells the book's theme to leave the picture as it is."""
    return (
        f'<figure class="lab-explore" style="margin:0;max-width:100%"{attributes}>\n{controls}'
        f'<img class="dark-light" src="data:image/png;base64,{frame.png}" '
        f'alt="{html.escape(frame.alt)}" style="{_CARD}">\n'
        '<pre style="margin:.4em 0;padding:0;border:0;background:transparent;color:inherit;'
        f'white-space:pre-wrap;overflow-wrap:anywhere"{"" if frame.text else " hidden"}>'
        # A line break right after <pre> is dropped by HTML: this one protects a text that begins with one.
        f"\n{html.escape(frame.text)}</pre>\n"
        f'<figcaption style="max-width:100%">{html.escape(caption)}</figcaption>\n{rest}</figure>'
    )


def _static_html(
    show: Callable[..., Any],
    start: dict[str, Any],
    caption: str,
    alt: str | Callable[..., str],
    choices: dict[str, Sequence[Any]],
    words: dict[str, list[str]],
) -> str:
    names = list(choices)
    at = [list(choices[name]).index(start[name]) for name in names]
    frames, first = [], None
    for index in itertools.product(*(range(len(choices[name])) for name in names)):
        frame = _frame(show, alt, {name: choices[name][i] for name, i in zip(names, index, strict=True)})
        if list(index) == at:  # its picture is in the <img> already
            first = frame
            frames.append({"text": frame.text, "alt": frame.alt})
        else:
            frames.append({"png": frame.png, "text": frame.text, "alt": frame.alt})
    assert first is not None
    # The name depends on nothing measured: two machines that differ in the last digit give the same one.
    key = json.dumps([caption, [[name, words[name]] for name in names], at])
    mark = hashlib.sha256(key.encode()).hexdigest()[:12]
    data = json.dumps({"values": [words[name] for name in names], "frames": frames}, ensure_ascii=False)
    data = data.replace("<", "\\u003c")  # no "</script>" or "<!--" can end the data early
    controls = "".join(_slider(name, words[name], i) for name, i in zip(names, at, strict=True))
    rest = f'<script type="application/json">{data}</script>\n<script>{_SCRIPT % mark}</script>\n'
    page = _picture(first, caption, controls, rest, f' data-explore="{mark}"')
    size = len(page.encode())
    if size > MAX_BYTES:
        raise ValueError(
            f"choices: {len(frames)} states give {size / 1000:.0f} kB of HTML, expected at most "
            f"{MAX_BYTES // 1000} kB; take fewer states, a smaller figure or fewer marks in it"
        )
    return page


def _slider(name: str, words: list[str], at: int) -> str:
    return (
        '<label style="display:flex;flex-wrap:wrap;align-items:center;gap:.2em .8em;margin:.2em 0">'
        f'<span style="min-width:6em">{html.escape(name.replace("_", " "))}</span>'
        f'<input type="range" min="0" max="{len(words) - 1}" step="1" value="{at}" '
        f'aria-valuetext="{html.escape(words[at])}" autocomplete="off" '
        'style="flex:1 1 9em;min-width:0;min-height:2.2em">'
        f'<output style="min-width:4em">{html.escape(words[at])}</output></label>\n'
    )


def _live(
    show: Callable[..., Any],
    start: dict[str, Any],
    caption: str,
    alt: str | Callable[..., str],
    choices: dict[str, Sequence[Any]],
    words: dict[str, list[str]],
) -> None:
    """ipywidgets, with nothing in it that 7.7 (Colab) and 8 do not share."""
    import ipywidgets
    from IPython.display import HTML, display

    sliders = {
        name: ipywidgets.SelectionSlider(
            options=list(zip(words[name], values, strict=True)),
            value=start[name],
            description=name.replace("_", " "),
            continuous_update=False,  # one run per move, not one per pixel
            style={"description_width": "initial"},
        )
        for name, values in choices.items()
    }

    def draw(**state: Any) -> None:
        display(HTML(_picture(_frame(show, alt, state), caption)))  # type: ignore[no-untyped-call]

    ipywidgets.interact(draw, **sliders)
