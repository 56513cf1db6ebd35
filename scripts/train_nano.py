"""Train nano, the book's small language model with 96 heads, and write it with its card.

    python scripts/train_nano.py --seed 0 --steps 8000

About an hour and a half on one core. Interrupted, the same command goes on from its last checkpoint (in the cache
folder). The tokenizer that nano and pico share is trained first, from the same text, unless it is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from icml26.language import pretraining
from small_models import run


def main(arguments: Sequence[str] | None = None) -> int:
    return run(
        __doc__,
        "nano",
        pretraining.NANO,
        pretraining.NANO_RECIPE,
        pretraining.answer_loss,
        partial(pretraining.Mixture, skill_share=pretraining.NANO_RECIPE["skill_share"]),
        pretraining.nano_measures,
        8_000,
        arguments,
    )


if __name__ == "__main__":
    raise SystemExit(main())
