"""What the two commands that train the small models share: train, write the weights, measure those, write the card."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaForCausalLM

import commands
from icml26 import lab
from icml26.lab.download import sha256_of
from icml26.language import pretraining, wiki
from icml26.language.models import assets_folder
from icml26.language.tokenizer import FILE, small_tokenizer, train_tokenizer


def run(
    doc: str | None,
    name: str,
    shape: pretraining.Shape,
    recipe: Mapping[str, Any],
    loss: Callable[[Any, Any], torch.Tensor],
    batches: Callable[[Any, Sequence[str], int], Any],
    measures: Callable[[Any, Any], Mapping[str, Any]],
    steps: int,
    arguments: Sequence[str] | None,
) -> int:
    """One command line: --seed, --steps, --out, --threads. `batches(tokenizer, texts, seed)` and `measures(model,
    tokenizer)` are the model's own; everything else is alike."""
    options = commands.options(doc)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--steps", type=int, default=steps)
    options.add_argument("--out", type=Path, default=assets_folder(name))
    options.add_argument("--threads", type=int, default=1, help="more than one pays only on an idle machine")
    parsed = options.parse_args(arguments)
    torch.set_num_threads(parsed.threads)
    if not FILE.is_file():
        train_tokenizer().save(str(FILE))
    tokenizer = small_tokenizer()
    model = shape.model(parsed.seed)
    history = lab.train.fit(
        model,
        loss,
        batches(tokenizer, wiki.split("train"), parsed.seed),
        optimizer=lambda parameters: pretraining.adamw(parameters, recipe["learning_rate"]),
        steps=parsed.steps,
        schedule=pretraining.one_cycle(parsed.steps),
        clip=1.0,
        checkpoint=pretraining.checkpoint(name, parsed.seed, parsed.steps, recipe),
        every=250,
        seed=parsed.seed,
        desc=name,
    )
    pretraining.save_small(parsed.out, model, {})  # what is measured below is what is committed: float16 weights
    kept = LlamaForCausalLM.from_pretrained(parsed.out, dtype=torch.float32, local_files_only=True).eval()
    found = measures(kept, tokenizer)
    facts = pretraining.card(
        shape,
        kept,
        history,
        seed=parsed.seed,
        threads=parsed.threads,
        recipe=recipe,
        wikipedia_sha256=wiki.SHA256,
        tokenizer_sha256=sha256_of(FILE),
        **found,
    )
    pretraining.save_small(parsed.out, model, facts)
    print(json.dumps(found, indent=2))
    return 0
