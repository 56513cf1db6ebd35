"""How the book's two small models were trained, and what their cards say.

nano reads Wikipedia and answers questions of eight skills; the loss of a question is that of its answer alone, since
what is asked is random. `scripts/train_nano.py` is the command.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from icml26 import lab
from icml26.lab.download import cache_dir
from icml26.language import wiki
from icml26.language.blocks import IGNORED, block_bytes, blocks, token_ids
from icml26.language.evaluation import evaluate
from icml26.language.perplexity import perplexity
from icml26.language.small_skills import SKILLS, training_line

if TYPE_CHECKING:
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerBase

    from icml26.lab.train import History

__all__ = [
    "NANO",
    "NANO_RECIPE",
    "PICO",
    "Mixture",
    "Shape",
    "adamw",
    "answer_loss",
    "card",
    "checkpoint",
    "nano_measures",
    "one_cycle",
    "save_small",
    "wikipedia_measures",
]

FIRST = 20  # losses that a card keeps, and that a test runs again


@dataclass(frozen=True)
class Shape:
    """The size of a small Llama with as many key as query heads and tied embeddings."""

    hidden: int
    d_ff: int
    layers: int
    heads: int
    vocabulary: int = 2048
    positions: int = 256

    def config(self) -> LlamaConfig:
        """Its `transformers` configuration."""
        from transformers import LlamaConfig

        return LlamaConfig(
            vocab_size=self.vocabulary,
            hidden_size=self.hidden,
            intermediate_size=self.d_ff,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            num_key_value_heads=self.heads,
            head_dim=self.hidden // self.heads,
            max_position_embeddings=self.positions,
            tie_word_embeddings=True,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
        )

    def model(self, seed: int) -> LlamaForCausalLM:
        """A freshly initialised model, float32."""
        from transformers import LlamaForCausalLM

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return LlamaForCausalLM(self.config())


# What else decides a run of nano; a batch has 1,024 tokens, in rows of 128 and of 256 by turns.
NANO_RECIPE: dict[str, float] = {"learning_rate": 2.5e-3, "skill_share": 0.6}

NANO = Shape(hidden=192, d_ff=576, layers=8, heads=12)
PICO = Shape(hidden=64, d_ff=192, layers=4, heads=4)


class Mixture:
    """Batches of tokens and of labels, each a pure function of seed and index.

    A row is, with probability `skill_share`, packed lines of skills, else a stretch of an article; all rows begin
    with `<bos>`. Even batches have rows of `length` tokens, odd ones half as many rows of twice that, so that the model
    knows all its positions.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        texts: list[str],
        seed: int,
        *,
        rows: int = 8,
        length: int = 128,
        skill_share: float = 0.6,
    ) -> None:
        self.tokenizer, self.seed, self.rows, self.length, self.skill_share = tokenizer, seed, rows, length, skill_share
        self.texts = [ids for text in texts if len(ids := token_ids(text, tokenizer)) >= 2 * length]
        sizes = np.array([len(ids) - 2 * length + 1 for ids in self.texts], dtype=np.float64)
        self.weights = sizes / sizes.sum()

    def __call__(self, index: int) -> tuple[Int64[Tensor, "rows length"], Int64[Tensor, "rows length"]]:
        """Tokens and labels of batch `index`; a label of -100 is not trained on."""
        rng = np.random.default_rng([self.seed, index])
        longer = 1 + index % 2
        rows, length = self.rows // longer, self.length * longer
        tokens = np.zeros((rows, length), dtype=np.int64)
        labels = np.full((rows, length), IGNORED, dtype=np.int64)
        for i in range(rows):
            fill = self._skills if rng.random() < self.skill_share else self._article
            tokens[i], labels[i] = fill(rng, length)
        return torch.from_numpy(tokens), torch.from_numpy(labels)

    def _article(self, rng: np.random.Generator, length: int) -> tuple[np.ndarray, np.ndarray]:
        ids = self.texts[rng.choice(len(self.texts), p=self.weights)]
        at = int(rng.integers(0, len(ids) - length + 2))
        row = np.concatenate([[self.tokenizer.bos_token_id], ids[at : at + length - 1]])
        return row, row

    def _skills(self, rng: np.random.Generator, length: int) -> tuple[np.ndarray, np.ndarray]:
        tokens, labels = [int(self.tokenizer.bos_token_id)], [IGNORED]
        encode = self.tokenizer.backend_tokenizer.encode
        while len(tokens) < length:
            item = training_line(rng)
            asked = encode(item.prompt, add_special_tokens=False).ids
            answer = encode(f"{item.answer}\n", add_special_tokens=False).ids
            tokens += asked + answer
            labels += [IGNORED] * len(asked) + answer
        return np.array(tokens[:length]), np.array(labels[:length])


def answer_loss(model: Any, batch: tuple[Int64[Tensor, "b t"], Int64[Tensor, "b t"]]) -> Float[Tensor, ""]:
    """Mean cross-entropy over the labelled tokens of a batch."""
    tokens, labels = batch
    logits = model(input_ids=tokens, use_cache=False).logits[:, :-1]
    return torch.nn.functional.cross_entropy(
        logits.float().flatten(0, 1), labels[:, 1:].flatten(), ignore_index=IGNORED
    )


def one_cycle(steps: int, warm: float = 0.05) -> Callable[[int], float]:
    """Factor of the learning rate: linear up over the first `warm` of the steps, then a cosine down to a hundredth."""
    top = max(1, round(warm * steps))

    def factor(step: int) -> float:
        if step < top:
            return (step + 1) / top
        return 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * (step - top) / max(1, steps - top)))

    return factor


def adamw(parameters: Iterable[torch.nn.Parameter], learning_rate: float) -> torch.optim.AdamW:
    """The small models' optimizer."""
    return torch.optim.AdamW(parameters, lr=learning_rate, betas=(0.9, 0.95), weight_decay=0.05)


def checkpoint(name: str, seed: int, steps: int, recipe: Mapping[str, Any]) -> Path:
    """Where a run keeps its state in the cache folder: another recipe is another file, and starts afresh."""
    text = json.dumps(recipe, sort_keys=True)
    return cache_dir() / f"train-{name}-{seed}-{steps}-{hashlib.sha256(text.encode()).hexdigest()[:8]}.safetensors"


def card(shape: Shape, model: LlamaForCausalLM, history: History, **facts: Any) -> dict[str, Any]:
    """What a small model's card begins with: size, run, versions, machine and date; `facts` follow in their order."""
    weights = sum(p.numel() for p in model.parameters())
    return {
        "parameters": weights,
        "parameters_without_embeddings": weights - model.get_input_embeddings().weight.numel(),
        "shape": asdict(shape),
        "steps": history.steps,
        "seconds": round(history.seconds),
        "first_losses": [round(float(loss), 5) for loss in history.losses[:FIRST]],
        "last_loss": round(float(history.losses[-100:].mean()), 4),
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("torch", "transformers", "tokenizers", "numpy")},
        },
        "machine": lab.tables.machine(),
        "date": date.today().isoformat(),
        **facts,
    }


def nano_measures(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerBase, n: int = 200, blocks_of: int | None = None
) -> dict[str, Any]:
    """What nano's card says of its abilities: exact answers on `n` held-out questions a skill, and perplexities.

    blocks_of : how many blocks of 256 tokens of each split; None reads all.
    """
    scores = {name: evaluate(model, tokenizer, skill, n=n, mode="exact") for name, skill in SKILLS.items()}
    wikipedia = wikipedia_measures(model, tokenizer, model.config.max_position_embeddings, blocks_of)
    reliable = sum(score.mean >= 0.95 for score in scores.values())
    loss = wikipedia["test"]["perplexity"]
    return {
        "acceptance": {
            "skills of 0.95 or more": {"wanted": 5, "got": reliable, "met": reliable >= 5},
            "perplexity on test articles, at most": {"wanted": 50, "got": loss, "met": loss <= 50},
        },
        "skills": {
            name: {"exact": round(score.mean, 4), "interval": [round(end, 4) for end in score.interval], "n": n}
            for name, score in scores.items()
        },
        "wikipedia": wikipedia,
    }


def wikipedia_measures(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerBase, length: int, blocks_of: int | None = None
) -> dict[str, dict[str, float | int]]:
    """Perplexity per token and bits per byte on Wikipedia's held-out articles, in blocks of `length` tokens.

    blocks_of : how many blocks of each split; None reads all.
    """
    measures: dict[str, dict[str, float | int]] = {}
    for name in ("validation", "test"):
        rows = blocks(wiki.split(name), tokenizer, length, n=blocks_of)
        found = perplexity(model, rows, batch_size=4, n_bytes=int(block_bytes(rows, tokenizer).sum()))
        measures[name] = {
            "perplexity": round(found.ppl, 3),
            "bits_per_byte": round(float(found.bits_per_byte or math.nan), 4),
            "tokens": int(found.tokens.sum()),
        }
    return measures


def save_small(folder: Path, model: LlamaForCausalLM, facts: Mapping[str, Any]) -> None:
    """Write model.safetensors (float16, the tied head left out), config.json and card.json; each whole or not at all.

    Raises FloatingPointError when a weight is not finite in float16.
    """
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    state = {name: value.detach().to(torch.float16).contiguous() for name, value in model.state_dict().items()}
    del state["lm_head.weight"]
    for name, value in state.items():
        if not bool(torch.isfinite(value).all()):
            raise FloatingPointError(f"{name} does not fit into float16")
    config = model.config.to_diff_dict()
    config.pop("transformers_version", None)
    with tempfile.TemporaryDirectory(dir=folder) as work:
        save_file(state, Path(work) / "model.safetensors", metadata={"format": "pt"})
        (Path(work) / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        (Path(work) / "card.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
        for name in ("model.safetensors", "config.json", "card.json"):
            os.replace(Path(work) / name, folder / name)
