"""Train pico, the book's smallest language model, and write it with its card.

    python scripts/train_pico.py --seed 0 --steps 3500 --out src/icml26/language/assets/pico

About twenty minutes on an idle core. Interrupted, the same command goes on from its last checkpoint (in the
cache folder). It has nano's tokenizer, of which it keeps a copy.
"""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import torch
from transformers import LlamaForCausalLM

import commands
from icml26 import lab
from icml26.lab.download import cache_dir, sha256_of
from icml26.language import pretraining, roles, wiki
from icml26.language.models import assets_folder
from icml26.language.pico import Batches, loss, pico_measures
from icml26.language.tokenizer import small_tokenizer

LEARNING_RATE = 3e-3


def optimizer(parameters: object) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=LEARNING_RATE, betas=(0.9, 0.95), weight_decay=0.05)  # type: ignore[arg-type]


def main(arguments: list[str] | None = None) -> int:
    options = commands.options(__doc__)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--steps", type=int, default=3_500)
    options.add_argument("--out", type=Path, default=assets_folder("pico"))
    options.add_argument("--threads", type=int, default=1, help="more than one pays only on an idle machine")
    parsed = options.parse_args(arguments)
    torch.set_num_threads(parsed.threads)
    tokenizer = small_tokenizer()
    model = pretraining.PICO.model(parsed.seed)
    began = time.process_time()
    history = lab.train.fit(
        model,
        loss,
        Batches(tokenizer, wiki.split("train"), parsed.seed),
        optimizer=optimizer,
        steps=parsed.steps,
        schedule=pretraining.one_cycle(parsed.steps),
        clip=1.0,
        checkpoint=cache_dir() / f"train-pico-{parsed.seed}-{parsed.steps}.safetensors",
        every=250,
        seed=parsed.seed,
        desc="pico",
    )
    spent = None if history.resumed_from else round(time.process_time() - began)
    pretraining.save_small(parsed.out, model, {})  # what is measured below is what is committed: float16 weights
    shutil.copyfile(assets_folder("nano") / "tokenizer.json", parsed.out / "tokenizer.json")
    kept = LlamaForCausalLM.from_pretrained(parsed.out, dtype=torch.float32, local_files_only=True).eval()
    facts = pretraining.card(
        pretraining.PICO,
        kept,
        history,
        seed=parsed.seed,
        learning_rate=LEARNING_RATE,
        mixture=roles.MIXTURE | {"rows": 40, "articles": 2, "value_weight": 10},
        cpu_seconds=spent,
        rows_sha256=roles.sha256_of_rows(roles.mixed_rows(1000, parsed.seed)),
        wikipedia_sha256=wiki.SHA256,
        tokenizer_sha256=sha256_of(parsed.out / "tokenizer.json"),
        **pico_measures(kept, tokenizer),
    )
    pretraining.save_small(parsed.out, model, facts)
    print(json.dumps({key: facts[key] for key in ("acceptance", "grades", "wikipedia")}, indent=2))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
