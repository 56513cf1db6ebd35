"""What a language model costs: parameters, floating-point operations, the cache; counted, not guessed.

`parameters`, `forward_flops`, `training_flops` and `kv_cache_bytes` read a configuration alone, so that they
speak of models that fit on no machine here. `counting(model)` watches a real one at work, for comparisons at
equal cost.

One multiplication and addition are 2 operations. Matrix products are counted, elementwise work is not (norms,
activations, softmax, rotary embedding: well below 1 % for d >= 500).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

__all__ = [
    "Cost",
    "Flops",
    "Parameters",
    "counting",
    "forward_flops",
    "kv_cache_bytes",
    "parameters",
    "training_flops",
]


@dataclass(frozen=True)
class Parameters:
    """Numbers in a model, by part. `head` is 0 where it is tied to the embedding."""

    embedding: int
    attention: int
    mlp: int
    norms: int
    head: int

    @property
    def total(self) -> int:
        return self.embedding + self.attention + self.mlp + self.norms + self.head


@dataclass(frozen=True)
class Flops:
    """Floating-point operations of one pass, by part.

    Attributes:
        projections: the linear maps to queries, keys, values and from the heads' outputs; linear in the tokens.
        attention: scores and their products with the values; quadratic in the tokens.
        mlp: gate, up and down.
        head: the logits.
    """

    projections: int
    attention: int
    mlp: int
    head: int

    @property
    def total(self) -> int:
        return self.projections + self.attention + self.mlp + self.head


def parameters(config: Any) -> Parameters:
    """The parameters of a Llama-type model (RMS norms, gated MLP, grouped queries), from its config alone.

    Llama, SmolLM2 and Mistral; with biases where `attention_bias` or `mlp_bias` say so; Qwen2 (biases on queries,
    keys, values) and Qwen3 (norms of queries and keys).

    Raises:
        TypeError, ValueError: not a config of such a model.
    """
    s = _Sizes.of(config)
    attention = s.hidden * s.width * 2 + s.hidden * s.kv_width * 2
    norms = 2 * s.hidden
    if s.kind == "qwen2":
        attention += s.width + 2 * s.kv_width
    elif s.attention_bias:
        attention += s.width + 2 * s.kv_width + s.hidden
    if s.kind == "qwen3":
        norms += 2 * s.head_dim
    mlp = 3 * s.hidden * s.ff + (2 * s.ff + s.hidden if s.mlp_bias else 0)
    return Parameters(
        embedding=s.vocab * s.hidden,
        attention=s.layers * attention,
        mlp=s.layers * mlp,
        norms=s.layers * norms + s.hidden,
        head=0 if s.tied else s.vocab * s.hidden,
    )


def forward_flops(
    config: Any,
    tokens: int,
    *,
    batch: int = 1,
    past: int = 0,
    logits_to_keep: int | None = None,
    causal: bool = False,
) -> Flops:
    """Operations of one forward pass.

    Args:
        config: of a Llama-type model, see `parameters`.
        tokens: per sequence.
        batch: sequences.
        past: tokens per sequence that are in the cache already.
        logits_to_keep: positions per sequence for which logits are made; None is all, as in the model 0 is too.
        causal: count only the pairs that a causal mask lets through. False counts the full square, which is
            what plain matrix products do and what `torch.utils.flop_counter` counts.

    Raises:
        TypeError, ValueError: not such a config; a number out of range.
    """
    s = _Sizes.of(config)
    for name, number, least in (("tokens", tokens, 0), ("batch", batch, 0), ("past", past, 0)):
        _expect_count(name, number, least)
    kept = tokens
    if logits_to_keep is not None:
        _expect_count("logits_to_keep", logits_to_keep, 0)
        kept = min(logits_to_keep, tokens) or tokens
    every = 2 * batch * tokens
    pairs = tokens * past + (tokens * (tokens + 1) // 2 if causal else tokens * tokens)
    return Flops(
        projections=every * s.layers * s.hidden * (2 * s.width + 2 * s.kv_width),
        attention=2 * 2 * batch * s.layers * s.width * pairs,
        mlp=every * s.layers * 3 * s.hidden * s.ff,
        head=2 * batch * kept * s.vocab * s.hidden,
    )


def training_flops(
    config: Any, tokens: int, *, batch: int = 1, frozen: bool = False, causal: bool = False, recompute: bool = False
) -> Flops:
    """Operations of one forward and backward pass.

    A product y = W x of the forward pass has two in the backward pass, for W and for x; in attention both factors
    are activations. So training costs three forward passes.

    Args:
        config, tokens, batch, causal: as in `forward_flops`.
        frozen: gradients reach the activations of every layer but no weight, as when a mask, a prompt or an
            adapter in the first layer is learned: linear maps cost twice the forward pass, attention three times.
        recompute: gradient checkpointing: one more forward pass (the head's is kept).
    """
    f = forward_flops(config, tokens, batch=batch, causal=causal)
    linear, again = (2 if frozen else 3), int(recompute)
    return Flops(
        projections=(linear + again) * f.projections,
        attention=(3 + again) * f.attention,
        mlp=(linear + again) * f.mlp,
        head=linear * f.head,
    )


def kv_cache_bytes(config: Any, tokens: int, dtype: torch.dtype = torch.bfloat16, *, batch: int = 1) -> int:
    """Bytes of keys and values of `tokens` positions in all layers.

    Raises:
        TypeError, ValueError: not a config as in `parameters`; a number out of range.
    """
    s = _Sizes.of(config)
    _expect_count("tokens", tokens, 0)
    _expect_count("batch", batch, 0)
    return 2 * s.layers * s.kv_width * tokens * batch * dtype.itemsize


@dataclass
class Cost:
    """What `counting` has seen so far.

    Attributes:
        forwards: passes through the model's body, whatever the batch.
        sequences: rows of those passes. One model evaluation on n prompts is n, also when many interventions share
            a batch: the number to keep equal between methods of search.
        tokens: positions, padding included.
        backwards: backward passes through the output.
        flops: operations of both. Linear layers as they are at the time (pruned, wrapped, frozen, only the last
            logits), attention by the config and as if gradients reached every layer.
        seconds: wall time of the whole block, set when it ends.
    """

    forwards: int = 0
    sequences: int = 0
    tokens: int = 0
    backwards: int = 0
    flops: int = 0
    seconds: float = 0.0


@contextmanager
def counting(model: nn.Module) -> Iterator[Cost]:
    """Count what happens to the model in the block. Leaves no hook behind, after an exception neither; nests.

        with counting(model) as cost:
            search(model)
        print(cost.sequences, cost.flops)

    Args:
        model: a causal language model of `transformers`, or its body. Calls of either count. Linear layers that are
            put in inside the block are not seen, nor are products made by hand.

    Raises:
        TypeError: not a model with a config.
        ValueError: its config is not of the kind that `parameters` takes.
    """
    config = getattr(model, "config", None)
    if not isinstance(model, nn.Module) or config is None:
        raise TypeError(f"model: got {type(model).__name__}, expected a transformers model with a config")
    watch = _Watch(_Sizes.of(config))
    body = getattr(model, getattr(model, "base_model_prefix", ""), model)
    handles = [
        body.register_forward_pre_hook(watch.begins, with_kwargs=True),
        body.register_forward_hook(watch.ends),
    ]
    handles += [
        m.register_forward_hook(watch.linear, with_kwargs=True) for m in model.modules() if isinstance(m, nn.Linear)
    ]
    _synchronise()
    start = time.perf_counter()
    try:
        yield watch.cost
    finally:
        for handle in handles:
            handle.remove()
        watch.open = False
        _synchronise()
        watch.cost.seconds = time.perf_counter() - start


class _Watch:
    def __init__(self, sizes: _Sizes) -> None:
        self.sizes, self.cost, self.open = sizes, Cost(), True

    def begins(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        given = kwargs.get("input_ids", args[0] if args else None)
        embedded = kwargs.get("inputs_embeds")
        batch, tokens = (given if given is not None else embedded).shape[:2]  # type: ignore[union-attr]
        cache = kwargs.get("past_key_values", kwargs.get("cache"))
        past = 0 if cache is None else int(cache.get_seq_length())
        self.cost.forwards += 1
        self.cost.sequences += batch
        self.cost.tokens += batch * tokens
        self.attention = 4 * batch * self.sizes.layers * self.sizes.width * tokens * (tokens + past)
        self.cost.flops += self.attention

    def ends(self, module: nn.Module, args: Any, output: Any) -> None:
        states = output[0] if not isinstance(output, Tensor) else output
        if states.requires_grad:
            attention = self.attention

            def backward(gradient: Tensor) -> None:
                if self.open:
                    self.cost.backwards += 1
                    self.cost.flops += 2 * attention

            states.register_hook(backward)

    def linear(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Tensor) -> None:
        given: Tensor = args[0] if args else kwargs["input"]
        work = 2 * given.numel() * output.shape[-1]
        self.cost.flops += work
        if output.requires_grad:
            weight: Any = module.weight
            back = work * (int(given.requires_grad) + int(weight.requires_grad))

            def backward(gradient: Tensor) -> None:
                if self.open:
                    self.cost.flops += back

            output.register_hook(backward)  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class _Sizes:
    kind: str
    hidden: int
    ff: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    tied: bool
    attention_bias: bool
    mlp_bias: bool

    @property
    def width(self) -> int:
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        return self.kv_heads * self.head_dim

    @staticmethod
    def of(config: Any) -> _Sizes:
        needed = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size")
        missing = [name for name in needed if not isinstance(getattr(config, name, None), int)]
        if missing:
            raise TypeError(
                f"config: {type(config).__name__} has no {', '.join(missing)}, expected a Llama-type config"
            )
        kind = str(getattr(config, "model_type", "llama"))
        if kind not in _KINDS:
            raise ValueError(f"config: model_type is {kind!r}, expected one of {', '.join(map(repr, _KINDS))}")
        heads = config.num_attention_heads
        return _Sizes(
            kind=kind,
            hidden=config.hidden_size,
            ff=config.intermediate_size,
            layers=config.num_hidden_layers,
            heads=heads,
            kv_heads=getattr(config, "num_key_value_heads", None) or heads,
            head_dim=getattr(config, "head_dim", None) or config.hidden_size // heads,
            vocab=config.vocab_size,
            tied=bool(config.tie_word_embeddings),
            attention_bias=bool(getattr(config, "attention_bias", False)),
            mlp_bias=bool(getattr(config, "mlp_bias", False)),
        )


_KINDS = ("llama", "mistral", "qwen2", "qwen3")


def _expect_count(name: str, number: int, least: int) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or number < least:
        raise ValueError(f"{name}: got {number!r}, expected an integer >= {least}")


def _synchronise() -> None:
    if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
