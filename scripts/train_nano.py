"""Train nano, the book's small language model with 96 heads, and write it with its card.

    python scripts/train_nano.py --seed 0 --steps 8000

About an hour and a half on one core. Interrupted, the same command goes on from its last checkpoint (in the cache
folder). The tokenizer that nano and pico share is trained first, from the same text, unless it is there.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from transformers import LlamaForCausalLM

import commands
from icml26 import lab
from icml26.lab.download import sha256_of
from icml26.language import pretraining, wiki
from icml26.language.models import assets_folder
from icml26.language.tokenizer import FILE, small_tokenizer, train_tokenizer


def main(arguments: list[str] | None = None) -> int:
    options = commands.options(__doc__)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--steps", type=int, default=8_000)
    options.add_argument("--out", type=Path, default=assets_folder("nano"))
    options.add_argument("--threads", type=int, default=1, help="more than one pays only on an idle machine")
    parsed = options.parse_args(arguments)
    torch.set_num_threads(parsed.threads)
    if not FILE.is_file():
        train_tokenizer().save(str(FILE))
    tokenizer = small_tokenizer()
    model = pretraining.NANO.model(parsed.seed)
    recipe = pretraining.NANO_RECIPE
    history = lab.train.fit(
        model,
        pretraining.answer_loss,
        pretraining.Mixture(tokenizer, wiki.split("train"), parsed.seed, skill_share=recipe["skill_share"]),
        optimizer=lambda parameters: pretraining.adamw(parameters, recipe["learning_rate"]),
        steps=parsed.steps,
        schedule=pretraining.one_cycle(parsed.steps),
        clip=1.0,
        checkpoint=pretraining.checkpoint("nano", parsed.seed, parsed.steps, recipe),
        every=250,
        seed=parsed.seed,
        desc="nano",
    )
    pretraining.save_small(parsed.out, model, {})  # what is measured below is what is committed: float16 weights
    kept = LlamaForCausalLM.from_pretrained(parsed.out, dtype=torch.float32, local_files_only=True).eval()
    facts = pretraining.card(
        pretraining.NANO,
        kept,
        history,
        seed=parsed.seed,
        threads=parsed.threads,
        recipe=recipe,
        wikipedia_sha256=wiki.SHA256,
        tokenizer_sha256=sha256_of(FILE),
        **pretraining.nano_measures(kept, tokenizer),
    )
    pretraining.save_small(parsed.out, model, facts)
    print(json.dumps({key: facts[key] for key in ("skills", "wikipedia")}, indent=2))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
