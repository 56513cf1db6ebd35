"""Is the rest of the model still well: its loss on ordinary prose and on ordinary code.

An intervention that destroys one skill and leaves these alone has hit something specific. Small enough to be measured
after each of hundreds of interventions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jaxtyping import Int
from torch import Tensor, nn

from icml26.language.perplexity import perplexity

__all__ = ["health", "health_blocks"]

DOMAINS = ("wiki", "code")


def health_blocks(
    tok: Any, n: int = 4, length: int = 64, split: str = "validation"
) -> dict[str, Int[Tensor, "n length"]]:
    """`n` blocks of prose from Wikipedia and of code from Python's standard library, the same ones every time."""
    from icml26.language import texts, wiki
    from icml26.language.blocks import blocks

    sources = {"wiki": wiki.split(split), "code": texts.code(split)}
    return {domain: blocks(source, tok, length, n=n, seed=0) for domain, source in sources.items()}


def health(
    model: nn.Module,
    tok: Any = None,
    blocks: Mapping[str, Int[Tensor, "n length"]] | None = None,
    batch_size: int = 4,
) -> dict[str, float]:
    """Mean loss per token (nats) in each domain, keyed "wiki_nll", "code_nll".

    blocks : token ids by domain, made once (`health_blocks`) and passed to every call; None makes the usual ones with
        `tok`. Any names of domains will do.

    Infinite losses are returned as they are; NaN raises FloatingPointError. ValueError without blocks and tokenizer.
    """
    if blocks is None:
        if tok is None:
            raise ValueError("blocks: got None without a tokenizer, expected blocks or tok")
        blocks = health_blocks(tok)
    if not blocks:
        raise ValueError("blocks: got no domain, expected at least one")
    return {f"{domain}_nll": perplexity(model, ids, batch_size).mean_nll for domain, ids in blocks.items()}
