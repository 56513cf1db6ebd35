"""Train pico, the book's smallest language model, and write it with its card.

    python scripts/train_pico.py --seed 0 --steps 4000

About half an hour on one core. Interrupted, the same command goes on from its last checkpoint (in the cache folder).
It has nano's tokenizer.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from icml26.language import pico, pretraining
from small_models import run


def main(arguments: Sequence[str] | None = None) -> int:
    return run(
        __doc__,
        "pico",
        pretraining.PICO,
        pico.RECIPE,
        pico.loss,
        partial(pico.Batches, **{name: pico.RECIPE[name] for name in ("rows", "articles", "value_weight")}),
        pico.pico_measures,
        4_000,
        arguments,
    )


if __name__ == "__main__":
    raise SystemExit(main())
