"""Texts as equal blocks of tokens: what perplexity, calibration and training read."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["IGNORED", "blocks", "block_bytes", "begins_with_bos", "token_ids"]

IGNORED = -100
"""The label of a token that is read but not trained on: torch's cross-entropy and `transformers` leave it out."""


# Token ids by (tokenizer, text), both as digests: a random choice of blocks has to know all texts' lengths in tokens.
_KNOWN: OrderedDict[tuple[str, str], Int64[np.ndarray, " tokens"]] = OrderedDict()
_MOST = 4096  # texts that are remembered


def begins_with_bos(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether this tokenizer puts `<bos>` before every text (the small models' does, SmolLM2's does not)."""
    first = tokenizer("a")["input_ids"][0]
    return tokenizer.bos_token_id is not None and first == tokenizer.bos_token_id


def lone_surrogate(text: str) -> int | None:
    """Where a text holds half of a surrogate pair, which no tokenizer reads; None where it is Unicode throughout."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return error.start
    return None


def token_ids(text: str, tokenizer: PreTrainedTokenizerBase) -> Int64[np.ndarray, " tokens"]:
    """One text's tokens without special ones: "<eos>" in it is read as five characters.

    ValueError for an empty text or one that is no Unicode (a lone surrogate), TypeError for anything but text.
    """
    if not isinstance(text, str):
        raise TypeError(f"text: got {type(text).__name__}, expected str")
    if not text.strip():
        raise ValueError(f"text: got {text!r}, expected text")
    if (place := lone_surrogate(text)) is not None:
        raise ValueError(f"text: got the lone surrogate {text[place]!r} at {place}, expected Unicode text")
    # The fast tokenizer itself: transformers would warn that the text is longer than the model's context.
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        before = backend.encode_special_tokens
        backend.encode_special_tokens = True
        try:
            return np.asarray(backend.encode(text, add_special_tokens=False).ids, dtype=np.int64)
        finally:
            backend.encode_special_tokens = before
    return np.asarray(tokenizer(text, add_special_tokens=False)["input_ids"], dtype=np.int64)


def blocks(
    texts: Sequence[str],
    tokenizer: PreTrainedTokenizerBase,
    length: int,
    n: int | None = None,
    seed: int | None = None,
) -> Int64[Tensor, "n {length}"]:
    """Cut texts into blocks of exactly `length` tokens; no block crosses from one text into the next.

    What is left at the end of a text is dropped. Where the tokenizer begins texts with `<bos>`, every block does
    (it counts towards `length`).

    n : how many blocks: the first ones (texts after them are not read), or with `seed` a random choice, in random
        order, without repetition. None takes all. Token ids are remembered while the process lives, so that the
        second choice from the same texts is fast.

    Raises ValueError for a length below 2, no texts, an empty text, or more blocks asked for than there are.
    """
    if length < 2:
        raise ValueError(f"length: got {length}, expected at least 2 tokens (one is predicted from another)")
    if isinstance(texts, str) or not len(texts):
        raise ValueError(f"texts: got {'one string' if isinstance(texts, str) else 'none'}, expected a list of texts")
    start = [tokenizer.bos_token_id] if begins_with_bos(tokenizer) else []
    body = length - len(start)
    identity = _identity(tokenizer)
    cut: list[Int64[np.ndarray, "rows body"]] = []
    there = 0
    for text in texts:
        ids = _remembered(text, tokenizer, identity)
        cut.append(ids[: len(ids) // body * body].reshape(-1, body))
        there += len(cut[-1])
        if seed is None and n is not None and 1 <= n <= there:
            break
    rows = np.concatenate(cut)
    if not len(rows):
        raise ValueError(f"length: got {length}, but no text has that many tokens")
    if start:
        rows = np.concatenate([np.full((len(rows), 1), start[0], dtype=np.int64), rows], axis=1)
    if n is not None and not 1 <= n <= len(rows):
        raise ValueError(f"n: got {n}, expected 1 to {len(rows)}, the blocks of {length} tokens that the texts give")
    if seed is not None:
        rows = rows[np.random.default_rng(seed).permutation(len(rows))]
    return torch.from_numpy(np.ascontiguousarray(rows[:n]))


def _identity(tokenizer: PreTrainedTokenizerBase) -> str | None:
    """A digest of all that decides the tokens; None where the tokenizer does not tell."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    return None if backend is None else hashlib.sha256(backend.to_str().encode()).hexdigest()


def _remembered(text: str, tokenizer: PreTrainedTokenizerBase, identity: str | None) -> Int64[np.ndarray, " tokens"]:
    if identity is None or not isinstance(text, str):
        return token_ids(text, tokenizer)
    key = (identity, hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest())
    if key not in _KNOWN:
        _KNOWN[key] = token_ids(text, tokenizer)
        if len(_KNOWN) > _MOST:
            _KNOWN.popitem(last=False)
    _KNOWN.move_to_end(key)
    return _KNOWN[key]


def block_bytes(rows: Int64[Tensor, "n length"], tokenizer: PreTrainedTokenizerBase) -> Int64[np.ndarray, " n"]:
    """Bytes of UTF-8 text that each block's predicted tokens (all but its first) stand for.

    What bits per byte are counted over, so that models with different tokenizers compare.
    """
    texts = tokenizer.batch_decode(rows[:, 1:], skip_special_tokens=True, clean_up_tokenization_spaces=False)
    return np.array([len(text.encode()) for text in texts], dtype=np.int64)
