"""Notebooks read the same everywhere: plain Markdown, few cells, figures and words, described figures."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))
CELLS, FIGURES, WORDS = 40, 6, 2500

# What only Sphinx or MyST understands; GitHub, Colab and JupyterLab would show it as raw text.
SPHINX_ONLY = {
    "role": re.compile(r"\{[A-Za-z][\w:+-]*\}`"),
    "colon fence": re.compile(r"^\s*:{3,}", re.M),
    "directive": re.compile(r"^\s*(?:`{3,}|~{3,})\s*\{[A-Za-z][\w:+-]*\}", re.M),
    "eval-rst": re.compile(r"eval-rst"),
    "label": re.compile(r"^\s*\([\w-]+\)=\s*$", re.M),
    "comment": re.compile(r"^% ", re.M),
    "substitution": re.compile(r"\{\{.*?\}\}"),
    "reST directive": re.compile(r"^\s*\.\. [\w-]+::", re.M),
    "remote picture": re.compile(r"!\[[^\]]*\]\(https?://|<img[^>]*src=[\"']https?://"),
}


def prose(text):
    """Markdown without code and maths, in which braces and colons have other meanings."""
    text = re.sub(r"^(```|~~~)[\w-]*\n.*?^\1\s*$", "", text, flags=re.M | re.S)
    text = re.sub(r"\$\$.*?\$\$|\$[^$\n]+\$", "", text, flags=re.S)
    return re.sub(r"(?<![}`])`[^`\n]+`", "", text)


def source(part):
    return "".join(part) if isinstance(part, list) else part


def markup_faults(notebook):
    faults = []
    for i, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] != "markdown":
            continue
        text = prose(source(cell["source"]))
        for name, pattern in SPHINX_ONLY.items():
            if found := pattern.search(text):
                faults.append(f"cell {i}: {name} {found.group().strip()!r}")
    return faults


def outputs(notebook):
    """Each output's MIME bundle."""
    for i, cell in enumerate(notebook["cells"]):
        for output in cell.get("outputs", []):
            yield (
                i,
                {
                    mime: source(data)
                    for mime, data in output.get("data", {}).items()
                    if mime != "application/json"
                },
            )


def figure_faults(notebook):
    faults = []
    for i, data in outputs(notebook):
        if "text/html" not in data and any(mime.startswith("image/") for mime in data):
            faults.append(f"cell {i}: a bare picture; show it with lab.figure, which asks for a description")
        for tag in re.findall(r"<img\b[^>]*>", data.get("text/html", ""), re.S):
            if not re.search(r"\balt\s*=\s*(\"[^\"]*\S[^\"]*\"|'[^']*\S[^']*')", tag):
                faults.append(f"cell {i}: a picture without description")
        for tag in re.findall(r"<svg\b[^>]*>", data.get("text/html", ""), re.S):
            if not re.search(r"aria-label(ledby)?\s*=\s*[\"'][^\"']*\S", tag):
                faults.append(f"cell {i}: a drawing without description")
    for i, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] == "markdown" and re.search(r"!\[\s*\]\(", source(cell["source"])):
            faults.append(f"cell {i}: a picture without description")
    return faults


def sizes(notebook):
    """Numbers of cells, of still figures (sliders are not counted) and of words in Markdown cells."""
    figures = sum(
        len(re.findall(r"<figure\b[^>]*lab-figure", d.get("text/html", ""))) for _, d in outputs(notebook)
    )
    texts = [source(c["source"]) for c in notebook["cells"] if c["cell_type"] == "markdown"]
    words = sum(len(re.findall(r"\b[\w'’-]+\b", prose(text))) for text in texts)
    return len(notebook["cells"]), figures, words


def size_faults(notebook):
    limits = zip(("cells", "figures", "words"), sizes(notebook), (CELLS, FIGURES, WORDS), strict=True)
    return [f"{n} {name}, allowed are {limit}" for name, n, limit in limits if n > limit]


# --- the checks see what they are for ---


def markdown_notebook(*texts):
    return {"cells": [{"cell_type": "markdown", "source": text} for text in texts]}


def output_notebook(*bundles):
    cells = [{"cell_type": "code", "source": "", "outputs": [{"data": bundle}]} for bundle in bundles]
    return {"cells": cells}


@pytest.mark.parametrize(
    "bad",
    [
        "see {doc}`index`",
        "by {cite:t}`sun2026nested`",
        "a {prf:ref}`t1`",
        ":::{note}\nx\n:::",
        "::::\n",
        "```{note}\nx\n```",
        "~~~{figure} x.png\n~~~",
        "(my-label)=\n# Title",
        "% a comment",
        "the value is {{ value }}",
        ".. note:: x",
        "![badge](https://example.org/badge.svg)",
        '<img alt="x" src="https://example.org/badge.svg">',
    ],
)
def test_markup_that_only_the_book_understands_is_found(bad):
    assert markup_faults(markdown_notebook("# Fine", bad))


@pytest.mark.parametrize(
    "good",
    [
        "the set $\\{x\\}$ and $f_{a}$`x`",
        "$$\\begin{cases}{a}`b` \\end{cases}$$",
        "```python\nx = {note}\n:::\n```",
        "use `{cite}` never",
        "50 % of it, ratio 1:3",
        "<details><summary>More</summary>\n\ntext\n\n</details>",
        "[Open in Colab](https://example.org)",
        "![a tree](attachment:tree.png)",
    ],
)
def test_plain_markdown_passes(good):
    assert markup_faults(markdown_notebook(good)) == []


def test_figures_without_description_are_found():
    assert figure_faults(output_notebook({"image/png": "AAAA", "text/plain": "<Figure>"}))
    assert figure_faults(output_notebook({"text/html": '<img src="data:x">'}))
    assert figure_faults(output_notebook({"text/html": '<img src="data:x" alt=" ">'}))
    assert figure_faults(output_notebook({"text/html": ["<svg viewBox='0 0 1 1'>", "</svg>"]}))
    assert figure_faults(markdown_notebook("![](attachment:tree.png)"))
    assert not figure_faults(output_notebook({"text/html": '<img\nsrc="data:x" alt="a tree">'}))


def test_too_much_is_found():
    assert size_faults(markdown_notebook(*["x"] * (CELLS + 1)))
    assert not size_faults(markdown_notebook(*["x"] * CELLS))
    figure = {"text/html": '<figure class="lab-figure"><img alt="x"></figure>'}
    assert size_faults(output_notebook(*[figure] * (FIGURES + 1)))
    assert not size_faults(output_notebook(*[figure] * FIGURES))
    assert size_faults(markdown_notebook("word " * (WORDS + 1)))
    assert not size_faults(markdown_notebook("word " * WORDS))


# --- the notebooks ---


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
@pytest.mark.parametrize("check", [markup_faults, figure_faults, size_faults], ids=lambda f: f.__name__)
def test_a_notebook_keeps_the_rules(path, check):
    assert check(json.loads(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_starts_with_its_title_and_the_colab_link(path):
    first = json.loads(path.read_text(encoding="utf-8"))["cells"][0]
    assert first["cell_type"] == "markdown"
    text = source(first["source"])
    assert text.startswith("# ")
    assert "](https://colab.research.google.com/github/" in text
    assert f"/notebooks/{path.name})" in text
