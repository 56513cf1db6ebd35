"""A Llama stored as GGUF (the llama.cpp format), read into what `transformers` works with.

The blocks are unpacked by the `gguf` package. What is ours is only the naming: which tensor is which parameter,
and the order of the rows of the query and key matrices, which llama.cpp stores with the two halves of each
rotary pair side by side. A test compares the result, bit for bit, with the loader of `transformers`. We do not use
that loader because what it returns depends on its version (packed blocks or plain weights, a configuration that
says "quantised"), it takes a minute where this takes seconds, and its tokenizer forgets that the model was trained
with digits split one by one.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from icml26.lab.progress import progress

if TYPE_CHECKING:
    import transformers
    from gguf import GGUFReader

__all__ = ["open_gguf", "read_config", "read_tokenizer", "read_weights"]

_OUTSIDE = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_INSIDE = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_CONTROL = 3  # llama.cpp's token type of special tokens


def open_gguf(path: Path) -> GGUFReader:
    """The reader of the `gguf` package on a file.

    Raises ImportError (the package is missing), FileNotFoundError, ValueError (not GGUF, cut short, or a GGUF file
    of another architecture).
    """
    try:
        from gguf import GGUFReader
    except ImportError as error:
        raise ImportError("reading GGUF files needs the package gguf: pip install 'icml26[language]'") from error
    if not path.is_file():
        raise FileNotFoundError(f"path: there is no file {path}")
    try:
        reader = GGUFReader(path)
    except (ValueError, IndexError, KeyError) as error:
        raise ValueError(f"path: {path.name} is not a whole GGUF file ({error})") from error
    if _field(reader, "general.architecture") != "llama":
        raise ValueError(f"path: {path.name} holds {_field(reader, 'general.architecture')!r}, expected 'llama'")
    return reader


def _field(reader: GGUFReader, name: str, default: Any = None) -> Any:
    field = reader.get_field(name)
    return default if field is None else field.contents()


def read_config(reader: GGUFReader) -> transformers.LlamaConfig:
    """The model's `LlamaConfig`: sizes, rotary base, special tokens; nothing in it speaks of quantisation."""
    from transformers import LlamaConfig

    heads = _field(reader, "llama.attention.head_count")
    hidden = _field(reader, "llama.embedding_length")
    config = LlamaConfig(
        vocab_size=len(reader.fields["tokenizer.ggml.tokens"].data),
        hidden_size=hidden,
        intermediate_size=_field(reader, "llama.feed_forward_length"),
        num_hidden_layers=_field(reader, "llama.block_count"),
        num_attention_heads=heads,
        num_key_value_heads=_field(reader, "llama.attention.head_count_kv", heads),
        head_dim=_field(reader, "llama.attention.key_length", hidden // heads),
        max_position_embeddings=_field(reader, "llama.context_length"),
        # A float32 in the file; the nearest short decimal is the number that the authors wrote.
        rms_norm_eps=float(f"{_field(reader, 'llama.attention.layer_norm_rms_epsilon'):.6g}"),
        rope_parameters={"rope_type": "default", "rope_theta": float(_field(reader, "llama.rope.freq_base", 10000.0))},
        tie_word_embeddings=all(tensor.name != "output.weight" for tensor in reader.tensors),
        bos_token_id=_field(reader, "tokenizer.ggml.bos_token_id"),
        eos_token_id=_field(reader, "tokenizer.ggml.eos_token_id"),
        pad_token_id=_field(reader, "tokenizer.ggml.padding_token_id"),
    )
    config.architectures = ["LlamaForCausalLM"]
    return config


def read_weights(reader: GGUFReader, config: transformers.LlamaConfig) -> dict[str, Tensor]:
    """All parameters as float32, named and shaped as in `LlamaForCausalLM.state_dict()` (a tied head is left out).

    With hidden width h, f in the feed-forward part, d per head: embeddings [vocab, h]; per layer q [heads * d, h],
    k and v [key heads * d, h], o [h, heads * d], gate and up [f, h], down [h, f], norms [h]. The rows of q and k are
    put from llama.cpp's order of the rotary pairs into that of `transformers`.

    Raises ValueError for a tensor that a Llama does not have or a layer that lacks one.
    """
    from gguf import dequantize

    weights = {}
    for tensor in progress(reader.tensors, "unpacking weights"):
        value = torch.from_numpy(np.array(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32))
        block = re.fullmatch(r"blk\.(\d+)\.(\w+)\.weight", tensor.name)
        if block and block[2] in _INSIDE:
            name = f"model.layers.{block[1]}.{_INSIDE[block[2]]}.weight"
            if block[2] == "attn_q":
                value = _halves_apart(value, config.num_attention_heads)
            elif block[2] == "attn_k":
                value = _halves_apart(value, config.num_key_value_heads)
        elif tensor.name in _OUTSIDE:
            name = _OUTSIDE[tensor.name]
        else:
            raise ValueError(f"reader: the tensor {tensor.name!r} is no part of a Llama")
        weights[name] = value
    missing = [
        name
        for layer in range(config.num_hidden_layers)
        for part in _INSIDE.values()
        if (name := f"model.layers.{layer}.{part}.weight") not in weights
    ]
    missing += [name for name in ("model.embed_tokens.weight", "model.norm.weight") if name not in weights]
    if missing:
        raise ValueError(f"reader: the file lacks {', '.join(missing[:3])} ({len(missing)} in all)")
    return weights


def _halves_apart(rows: Tensor, heads: int) -> Tensor:
    """Rows of each head from llama.cpp's order (x0 y0 x1 y1 …) to that of `transformers` (x0 x1 … y0 y1 …)."""
    return rows.view(heads, -1, 2, rows.shape[1]).transpose(1, 2).reshape(rows.shape).contiguous()


def read_tokenizer(reader: GGUFReader) -> transformers.PreTrainedTokenizerFast:
    """The byte-level BPE tokenizer with the file's merges, special tokens and chat template.

    Padding goes to the left, as generation in batches needs.

    Raises ValueError for another kind of tokenizer than byte-level BPE with digits split one by one.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    kind = (_field(reader, "tokenizer.ggml.model"), _field(reader, "tokenizer.ggml.pre"))
    if kind != ("gpt2", "smollm"):
        raise ValueError(f"reader: the tokenizer is of the kind {kind}, expected ('gpt2', 'smollm')")
    tokens: list[str] = _field(reader, "tokenizer.ggml.tokens")
    merges = [tuple(merge.split(" ")) for merge in _field(reader, "tokenizer.ggml.merges")]
    types: list[int] = _field(reader, "tokenizer.ggml.token_type")
    backend = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    # "smollm": each digit is a token of its own, which is what the model saw in training.
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    backend.decoder = decoders.ByteLevel()
    special = [token for token, type_ in zip(tokens, types, strict=True) if type_ == _CONTROL]
    backend.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in special])
    named = {
        role: tokens[index]
        for role, key in (
            ("bos_token", "bos"),
            ("eos_token", "eos"),
            ("unk_token", "unknown"),
            ("pad_token", "padding"),
        )
        if (index := _field(reader, f"tokenizer.ggml.{key}_token_id")) is not None
    }
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        model_max_length=_field(reader, "llama.context_length"),
        padding_side="left",
        clean_up_tokenization_spaces=False,
        **named,
    )
    tokenizer.chat_template = _field(reader, "tokenizer.chat_template")
    return tokenizer
