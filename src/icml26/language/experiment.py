"""What the book's page on its language models states, measured: `python -m icml26.language.experiment --table all`.

`skills` and `perplexity` are the same everywhere up to rounding, but for code: Python's own library is another in
another Python. `race` holds speed and memory, and wants a quiet machine: `--table race`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int

from icml26 import lab
from icml26.lab.download import cache_dir, sha256_of
from icml26.language import skills, texts, wiki
from icml26.language.blocks import block_bytes, blocks
from icml26.language.embeddings import embed
from icml26.language.evaluation import measure, score
from icml26.language.models import assets_folder, load_lm
from icml26.language.perplexity import perplexity
from icml26.language.pins import PINS
from icml26.language.prepared import prepare

__all__ = ["Settings", "inputs", "perplexity_table", "race_table", "skill_table"]

PACKAGE = "icml26.language"


@dataclass(frozen=True)
class Settings:
    """items : most questions a skill and half. repeats : of each timing.

    passages, characters : of text a domain. nano reads 256 tokens at most, and of code each stands for little more than
    one character.
    """

    items: int = 100
    passages: int = 80
    characters: int = 200
    repeats: int = 7


def skill_table(settings: Settings, seeds: int = 1) -> pd.DataFrame:
    """SmolLM2 on the English skills and nano on its own: mean, 95 % interval and mode, for both halves of the items."""
    rows = []
    for name, tier in (("smollm2", skills.REAL), ("nano", skills.SMALL)):
        model, tokenizer = load_lm(name)
        for skill in lab.progress(list(tier.values()), desc=f"skills of {name}"):
            for half in skills.HALVES:
                asked = _questions(skill, half, settings.items)
                measured = measure(model, prepare(tokenizer, asked, skill.mode, batch_size=32))
                found = score(measured, skill.mode)
                low, high = found.interval
                log = float(measured.values("logprob").mean())
                rows.append((name, skill.name, half, skill.mode, len(asked), found.mean, low, high, log))
    columns = ["model", "skill", "half", "mode", "items", "accuracy", "low", "high", "mean_log_probability"]
    return pd.DataFrame(rows, columns=columns)


def _questions(skill: skills.Skill, half: str, most: int) -> list[skills.Item]:
    """As many different questions as there are, at most `most`."""
    for n in range(most, 0, -1):
        try:
            return skills.items(skill, n, skills.EVALUATION_SEED + 1, half)
        except ValueError:
            continue
    raise ValueError(f"skill: {skill.name!r} has no questions in its half {half!r}")


def perplexity_table(settings: Settings, seeds: int = 1) -> pd.DataFrame:
    """Each model on the same passages of held-out prose, code, speeches and plays.

    perplexity is per token of that model's own tokenizer; bits_per_byte, with its 95 % bootstrap interval over
    passages, compares models.
    """
    rows = []
    for name in ("smollm2", "nano", "pico"):
        model, tokenizer = load_lm(name)
        for domain, passages in _passages(settings).items():
            nats, size, tokens = [], [], 0
            for passage in lab.progress(passages, desc=f"{name} on {domain}"):
                ids = tokenizer(passage, return_tensors="pt")["input_ids"]
                found = perplexity(model, ids)
                tokens += int(found.tokens[0])
                nats.append(float(found.nll[0] * found.tokens[0]))
                size.append(int(block_bytes(ids, tokenizer)[0]))
            bits, low, high = _bits_per_byte(np.array(nats), np.array(size))
            rows.append((name, domain, tokens, float(np.exp(sum(nats) / tokens)), bits, low, high))
    columns = ["model", "domain", "tokens", "perplexity", "bits_per_byte", "low", "high"]
    return pd.DataFrame(rows, columns=columns)


def _passages(settings: Settings) -> dict[str, list[str]]:
    """The same stretches of text for all models, at places drawn with seed 0."""
    domains: dict[str, list[str]] = {
        "wikipedia": wiki.split("test"),
        "code": texts.code("test"),
        "speeches": [address.text for address in texts.speeches()],
        "plays": ["\n".join(speaker.speeches) for speaker in texts.speakers()],
    }
    rng = np.random.default_rng(0)
    chosen = {}
    for domain, source in domains.items():
        long = [text for text in source if len(text) > settings.characters]
        which = rng.choice(len(long), settings.passages)
        at = [int(rng.integers(len(long[i]) - settings.characters)) for i in which]
        chosen[domain] = [long[i][a : a + settings.characters] for i, a in zip(which, at, strict=True)]
    return chosen


def _bits_per_byte(
    nats: Float[np.ndarray, "passages"], size: Int[np.ndarray, "passages"]
) -> tuple[float, float, float]:
    """Total bits over total bytes, and the ends of its 95 % percentile interval when passages are drawn anew."""
    drawn = np.random.default_rng(0).integers(0, len(nats), (2000, len(nats)))
    many = nats[drawn].sum(axis=1) / np.log(2) / size[drawn].sum(axis=1)
    low, high = np.quantile(many, [0.025, 0.975])
    return float(nats.sum() / np.log(2) / size.sum()), float(low), float(high)


def race_table(settings: Settings, seeds: int = 1) -> pd.DataFrame:
    """Seconds and memory on one quiet machine, medians of some runs.

    first load : a fresh process with an empty cache but for the carried files: imports, conversion of SmolLM2, loading.
    next load : a fresh process, with imports. warm load : again in the same process, model and tokenizer.
    peak memory : of a process that loads the model and reads 2,048 tokens.
    """
    rows: list[tuple[str, str, float, str]] = []
    for name in ("smollm2", "nano", "pico"):
        model, tokenizer = load_lm(name)
        length = min(512, model.config.max_position_embeddings)
        ids = blocks(wiki.split("test"), tokenizer, length, n=2048 // length)
        read = _median(partial(perplexity, model, ids), settings.repeats)
        write = _median(partial(_write, model, ids), 3)
        rows += [
            (name, "first load", _first_load(name), "s"),
            (name, "next load", _median(partial(_child, _LOAD.format(name=name)), 3), "s"),
            (name, "warm load", _median(partial(load_lm, name), settings.repeats), "s"),
            (name, "perplexity of 2,048 tokens", perplexity(model, ids).ppl, "per token"),
            (name, "time for that perplexity", read, "s"),
            (name, "tokens read", ids.numel() / read, "tokens/s"),
            (name, "tokens written, one text", 32 / write, "tokens/s"),
            (name, "peak memory", _peak(name), "MB"),
        ]
    sentences = [paragraph.split(". ")[0] for text in wiki.split("test") for paragraph in text.split("\n\n")][:128]
    embed(sentences[:2], cache=False)
    once = _median(partial(embed, sentences, cache=False), 3)
    rows += [
        ("minilm", "sentences embedded", len(sentences) / once, "sentences/s"),
        ("import icml26.language", "time", _import(), "s"),
    ]
    return pd.DataFrame(rows, columns=["what", "measure", "value", "unit"])


_LOAD = "from icml26.language import load_lm; load_lm({name!r})"


def _first_load(name: str) -> float:
    """Seconds of one load with nothing in the cache but what was carried."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "carriers").symlink_to(cache_dir() / "carriers")
        return _median(partial(_child, _LOAD.format(name=name), ICML26_CACHE=folder), 1)


def _median(work: Callable[[], Any], repeats: int) -> float:
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds))


def _write(model: Any, ids: torch.Tensor) -> None:
    with torch.no_grad():
        model.generate(ids[:1, :32], max_new_tokens=32, min_new_tokens=32, do_sample=False, pad_token_id=0)


def _child(code: str, **environment: str) -> str:
    """What a fresh Python prints."""
    variables = {**os.environ, **environment}
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=variables)
    return done.stdout


def _peak(name: str) -> float:
    """Peak resident memory in MB (10^6 bytes) of a fresh process that loads a model and reads 2,048 tokens with it.

    Linux only, NaN elsewhere: what `getrusage` gives a child begins at its parent's size.
    """
    code = (
        "from icml26.language import load_lm, wiki\n"
        "from icml26.language.blocks import blocks\n"
        "from icml26.language.perplexity import perplexity\n"
        f"model, tokenizer = load_lm({name!r})\n"
        "length = min(512, model.config.max_position_embeddings)\n"
        "perplexity(model, blocks(wiki.split('test'), tokenizer, length, n=2048 // length))\n"
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))\n"
    )
    return int(_child(code)) * 1024 / 1e6 if sys.platform == "linux" else float("nan")


def _import() -> float:
    """Median seconds that `import icml26.language` takes in a fresh process that has started Python."""
    code = "import time; t = time.perf_counter(); import icml26.language; print(time.perf_counter() - t)"
    return float(np.median([float(_child(code)) for _ in range(5)]))


def inputs() -> dict[str, str]:
    """What the tables were measured on: weights, texts and Python, as sha256 or version."""
    small = {name: sha256_of(assets_folder(name) / "model.safetensors") for name in ("nano", "pico")}
    pinned = {pin.package: pin.sha256 for pin in PINS.values()}
    return small | pinned | {"wikipedia": wiki.SHA256}


SETTINGS = Settings()
_READING = ("perplexity", "blocks", "wiki", "texts", "models", "smollm2", "tokenizer", "experiment")
_ASKING = ("evaluation", "prepared", "skills", "english_skills", "small_skills", "models", "tokenizer", "experiment")
DEPENDS: Mapping[str, list[str]] = {
    "skills": [f"{PACKAGE}.{module}" for module in _ASKING],
    "perplexity": [f"{PACKAGE}.{module}" for module in _READING],
    "race": [f"{PACKAGE}.{module}" for module in ("perplexity", "embeddings", "models", "smollm2", "experiment")],
}
TABLES = {"skills": skill_table, "perplexity": perplexity_table, "race": race_table}

if __name__ == "__main__":
    lab.campaign(PACKAGE, TABLES, settings=SETTINGS, depends=DEPENDS, deterministic=tuple(TABLES), inputs=inputs())
