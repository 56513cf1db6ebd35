"""What the book's page on its language models states, measured: `python -m icml26.language.experiment --table all`.

The tables `skills` and `perplexity` are the same on every machine up to rounding; `speed` wants a quiet one
(`--table speed`).
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch

from icml26 import lab
from icml26.language import skills, texts, wiki
from icml26.language.blocks import block_bytes, blocks
from icml26.language.embeddings import embed
from icml26.language.evaluation import evaluate
from icml26.language.models import load_lm
from icml26.language.perplexity import perplexity

__all__ = ["Settings", "perplexity_table", "skill_table", "speed_table"]

PACKAGE = "icml26.language"


@dataclass(frozen=True)
class Settings:
    """items : questions a skill and half. blocks, length : of text a domain. repeats : of each timing."""

    items: int = 150
    blocks: int = 12
    length: int = 256
    repeats: int = 7


def skill_table(settings: Settings, seeds: int = 1) -> pd.DataFrame:
    """SmolLM2 on the English skills and nano on its own: mean, 95 % interval and mode, for both halves of the items."""
    rows = []
    for name, tier in (("smollm2", skills.REAL), ("nano", skills.SMALL)):
        model, tokenizer = load_lm(name)
        for skill in lab.progress(list(tier.values()), desc=f"skills of {name}"):
            for half in skills.HALVES:
                most = min(settings.items, _material(skill, half))
                score = evaluate(model, tokenizer, skill, n=most, half=half)
                log = evaluate(model, tokenizer, skill, n=most, half=half, mode="logprob")
                low, high = score.interval
                rows.append((name, skill.name, half, score.mode, most, score.mean, low, high, log.mean))
    columns = ["model", "skill", "half", "mode", "items", "accuracy", "low", "high", "mean_log_probability"]
    return pd.DataFrame(rows, columns=columns)


def _material(skill: skills.Skill, half: str) -> int:
    """How many different items this half of a skill gives, counted up to a few hundred."""
    n = 25
    while n < 400:
        try:
            skills.items(skill, n + 25, skills.EVALUATION_SEED, half)
        except ValueError:
            return n
        n += 25
    return n


def perplexity_table(settings: Settings, seeds: int = 1) -> pd.DataFrame:
    """Each model on held-out prose, code, speeches and plays, with bits per byte, which compare across models."""
    domains: dict[str, list[str]] = {
        "wikipedia": wiki.split("test"),
        "code": texts.code("test"),
        "speeches": [address.text for address in texts.speeches()],
        "plays": ["\n".join(speaker.speeches) for speaker in texts.speakers()],
    }
    rows = []
    for name in ("smollm2", "nano", "pico"):
        model, tokenizer = load_lm(name)
        for domain, source in lab.progress(list(domains.items()), desc=f"perplexity of {name}"):
            ids = blocks(source, tokenizer, settings.length, n=settings.blocks, seed=0)
            found = perplexity(model, ids, batch_size=4, n_bytes=int(block_bytes(ids, tokenizer).sum()))
            rows.append((name, domain, int(found.tokens.sum()), found.ppl, found.bits_per_byte))
    return pd.DataFrame(rows, columns=["model", "domain", "tokens", "perplexity", "bits_per_byte"])


def speed_table(settings: Settings, seeds: int = 1) -> pd.DataFrame:
    """Seconds and memory on one quiet machine, each the median of some runs in a process with torch's usual threads.

    warm load : the cached float32 copy and its tokenizer, after the imports. first load : conversion of the carried
    file, with the imports. peak : resident memory of a process that loads the model and reads 4 × 512 tokens.
    """
    rows: list[tuple[str, str, float, str]] = []
    for name in ("smollm2", "nano", "pico"):
        model, tokenizer = load_lm(name)
        length = min(512, model.config.max_position_embeddings)
        ids = blocks(wiki.split("test"), tokenizer, length, n=2048 // length)
        read = _median(partial(perplexity, model, ids), settings.repeats)
        write = _median(partial(_write, model, ids), 3)
        rows += [
            (name, "warm load", _median(partial(load_lm, name), settings.repeats), "s"),
            (name, "perplexity of 2,048 tokens", read, "s"),
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


def _child(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def _peak(name: str) -> float:
    """Peak resident memory in MB (10^6 bytes) of a fresh process that loads a model and reads 2,048 tokens with it."""
    scale = 1 if sys.platform == "darwin" else 1024
    code = (
        "import resource\n"
        "from icml26.language import load_lm, wiki\n"
        "from icml26.language.blocks import blocks\n"
        "from icml26.language.perplexity import perplexity\n"
        f"model, tokenizer = load_lm({name!r})\n"
        "length = min(512, model.config.max_position_embeddings)\n"
        "perplexity(model, blocks(wiki.split('test'), tokenizer, length, n=2048 // length))\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    return int(_child(code)) * scale / 1e6


def _import() -> float:
    """Median seconds that `import icml26.language` takes in a fresh process that has started Python."""
    code = "import time; t = time.perf_counter(); import icml26.language; print(time.perf_counter() - t)"
    return float(np.median([float(_child(code)) for _ in range(5)]))


SETTINGS = Settings()
_SHARED = [f"{PACKAGE}.{module}" for module in ("evaluation", "prepared", "skills")]
DEPENDS: Mapping[str, list[str]] = {
    "skills": [*_SHARED, f"{PACKAGE}.english_skills", f"{PACKAGE}.small_skills", f"{PACKAGE}.experiment"],
    "perplexity": [f"{PACKAGE}.{module}" for module in ("perplexity", "blocks", "wiki", "texts", "experiment")],
    "speed": [f"{PACKAGE}.{module}" for module in ("perplexity", "experiment")],
}
TABLES = {"skills": skill_table, "perplexity": perplexity_table, "speed": speed_table}

if __name__ == "__main__":
    lab.campaign(PACKAGE, TABLES, settings=SETTINGS, depends=DEPENDS, deterministic=tuple(TABLES), timing=("speed",))
