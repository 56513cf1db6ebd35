"""One figure style, and figures that everybody can read: alt text, white card, phone width."""

import base64
import html
import io
from types import TracebackType
from typing import Any, cast

import matplotlib
from cycler import cycler
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

COLOURS = {
    "blue": "#0072B2",
    "vermillion": "#D55E00",
    "green": "#009E73",
    "orange": "#E69F00",
    "purple": "#CC79A7",
    "sky": "#56B4E9",
    "black": "#000000",
    "yellow": "#F0E442",
}
"""Okabe and Ito's palette, told apart with any colour vision; in the line cycle's order, which leaves out
yellow: too pale for lines on white."""

LIMIT = 300_000
"""Bytes that one picture may have."""


class style:
    """Set the book's figure style, at once: `lab.style()`; `with lab.style():` ends it with the block.

    7 × 3.6 in at 110 dpi: 770 px, and text of about 9 px where a phone of 390 px shrinks it.
    """

    def __init__(self) -> None:
        names = [name for name in COLOURS if name != "yellow"]
        settings: dict[str, Any] = {
            "figure.figsize": (7.0, 3.6),
            "figure.dpi": 110,
            "savefig.dpi": "figure",
            "figure.constrained_layout.use": True,
            "font.size": 13,
            "axes.titlesize": 14,
            "xtick.labelsize": 12,
            "ytick.labelsize": 12,
            "legend.fontsize": 12,
            "legend.frameon": False,
            "lines.linewidth": 2.2,
            "lines.markersize": 7,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "grid.alpha": 0.3,
            "axes.axisbelow": True,
            "figure.facecolor": "white",
            "axes.facecolor": "white",
            "savefig.facecolor": "white",
            "axes.prop_cycle": cycler(color=[COLOURS[name] for name in names]),
        }
        # Untyped on purpose: the stubs list the keys of one matplotlib version.
        self._params = cast(Any, matplotlib.rcParams)
        self._before = {name: self._params[name] for name in settings}
        self._params.update(settings)

    def __enter__(self) -> "style":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._params.update(self._before)

    def _ipython_display_(self) -> None:
        """Show nothing: the set-up cell may end with `lab.style()`."""


class _Picture:
    """A figure as one piece of HTML; its alt text in a terminal."""

    def __init__(self, png: bytes, caption: str, alt: str) -> None:
        self.png, self.caption, self.alt = png, caption, alt

    def _repr_html_(self) -> str:
        data = base64.b64encode(self.png).decode("ascii")
        # The picture keeps its own white card: lines and labels are drawn for white, the page may be dark.
        return (
            '<figure class="lab-figure" style="margin:1em 0;max-width:100%">'
            f'<img src="data:image/png;base64,{data}" alt="{html.escape(self.alt, quote=True)}" '
            'style="display:block;max-width:100%;height:auto;box-sizing:border-box;background:#fff;'
            'border-radius:8px;padding:8px">'
            '<figcaption style="margin-top:.5em;color:inherit;font-size:.9em">'
            f"{html.escape(self.caption)}</figcaption>"
            "</figure>"
        )

    def __repr__(self) -> str:
        return f"<figure: {self.alt}>"


def figure(fig: Figure, *, caption: str, alt: str) -> None:
    """Display a finished figure once, with caption and alt text, and close it.

    Args:
        fig: a matplotlib figure.
        caption: what to see in it, shown below.
        alt: what it shows, in words, for those who do not see it.

    Raises:
        TypeError: `fig` is no figure, `caption` or `alt` no text.
        ValueError: `caption` or `alt` is empty, or the picture has more than 300 kB.
    """
    from IPython.display import display

    if not isinstance(fig, Figure):
        raise TypeError(f"fig must be a matplotlib Figure, got {type(fig).__name__}")
    for argument, text in (("caption", caption), ("alt", alt)):
        if not isinstance(text, str):
            raise TypeError(f"{argument} must be a text, got {type(text).__name__} {text!r}")
        if not text.strip():
            raise ValueError(f"{argument} must not be empty")
    buffer = io.BytesIO()
    # Without the software's name the same drawing gives the same bytes.
    fig.savefig(
        buffer, format="png", dpi=fig.dpi, bbox_inches="tight", facecolor="white", metadata={"Software": None}
    )
    plt.close(fig)
    png = buffer.getvalue()
    if len(png) > LIMIT:
        raise ValueError(
            f"fig makes a picture of {len(png):,} bytes, the limit is {LIMIT:,}: draw fewer points"
        )
    display(_Picture(png, caption.strip(), alt.strip()))  # type: ignore[no-untyped-call]
