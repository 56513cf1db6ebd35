"""Answers from a language model: greedy or sampled, one conversation or many prompts at once.

Built on `transformers`' `generate` (its cache, its batching), with what an experiment needs on top: every row
has its own random numbers, so that an answer does not depend on which prompts it shared a batch with; the
log-probability of every token comes along; and nothing is said to the model that the caller did not say. Chat
templates like SmolLM2's put a system message of their own before a conversation that has none, and hub models
carry sampling defaults and penalties in their `generation_config`: neither plays a part here.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from icml26.lab.progress import bar
from icml26.language.evaluation import Before, evaluating
from icml26.language.tokenizer import check_padding

__all__ = ["Reply", "chat", "chat_ids", "generate"]


@dataclass(frozen=True)
class Reply:
    """One answer.

    Attributes:
        text: the answer without special tokens, cut before the stop text if there was one.
        tokens: the generated ids, with the end-of-sequence token if there was one, up to and with the token
            that completed a stop text.
        logprobs: of each token under the model itself: natural logarithm, temperature 1, nothing filtered.
        finished: whether it came to an end by itself or at a stop text, rather than at `max_new_tokens`.
    """

    text: str
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    finished: bool


def chat(
    model: nn.Module,
    tok: Any,
    messages: Sequence[Mapping[str, str]],
    max_new_tokens: int = 128,
    *,
    system: str | None = "",
    temperature: float | int = 0.0,
    top_p: float | int | None = None,
    top_k: int | None = None,
    seed: int = 0,
    stop: str | Sequence[str] = (),
) -> Reply:
    """The model's answer to a conversation. `messages` and `system` as in `chat_ids`, the rest as in `generate`.

    >>> ask = {"role": "user", "content": "Capital of France?"}
    >>> chat(model, tok, [ask]).text  # doctest: +SKIP
    'The capital of France is Paris.'
    """
    ids = chat_ids(tok, messages, system=system)
    replies = generate(
        model, tok, [ids], max_new_tokens, temperature=temperature, top_p=top_p, top_k=top_k, seed=[seed], stop=stop
    )
    return replies[0]


def chat_ids(tok: Any, messages: Sequence[Mapping[str, str]], *, system: str | None = "") -> list[int]:
    """A conversation as token ids that end where the answer begins; a prompt for `generate`.

    Args:
        tok: a tokenizer with a chat template.
        messages: dicts with `role` and `content`: perhaps one "system", then "user" and "assistant" in turn,
            the last one of the user.
        system: the system message of a conversation that has none. "" says nothing, explicitly: SmolLM2 then
            sees an empty system message and not its own default, the small models none. None leaves the choice
            to the template, defaults included.

    Raises:
        ValueError: no messages, a wrong role or order, no text, a special token in a text, no chat template.
    """
    talk = _checked(tok, messages)
    if not getattr(tok, "chat_template", None):
        raise ValueError("tok: has no chat_template, expected one")
    if system is not None and talk[0]["role"] != "system":
        talk = [_message(tok, {"role": "system", "content": system}, "system", ("system",)), *talk]
    encoded = tok.apply_chat_template(talk, tokenize=True, add_generation_prompt=True, return_dict=True)
    return [int(token) for token in encoded["input_ids"]]


def generate(
    model: nn.Module,
    tok: Any,
    prompts: Sequence[str | Sequence[int]],
    max_new_tokens: int = 128,
    *,
    temperature: float | int = 0.0,
    top_p: float | int | None = None,
    top_k: int | None = None,
    seed: int | Sequence[int] = 0,
    stop: str | Sequence[str] = (),
    batch_size: int = 16,
    before: Before | None = None,
) -> list[Reply]:
    """Continue each prompt, in batches of prompts of similar length.

    Args:
        model: a `transformers` causal language model. Dropout is off while it runs; its mode stays as it is.
        tok: its tokenizer, with padding_side "left".
        prompts: texts, or token ids, which are taken as they are (`chat_ids` makes them from a conversation).
        max_new_tokens: most tokens per answer.
        temperature: 0 takes the most probable token each time; otherwise a token is drawn at that temperature.
        top_p, top_k: draw only from the most probable tokens that together hold this share, from that many.
        seed: of the draws. An integer gives row i the random numbers (seed, i); a sequence gives one per row.
            A row's answer depends on its own numbers alone; in bf16 and fp16 the logits themselves depend on
            the batch, so there it may change with it.
        stop: one or several texts at which an answer ends. They are not part of it.
        batch_size: prompts per batch.
        before: called right before each batch with the places in `prompts` of the batch's rows, in the order of
            these rows: the place to set an intervention that differs from row to row, as
            `buffer.copy_(masks[rows])`. Batches hold up to `batch_size` rows, the last one may hold fewer.

    Returns:
        A `Reply` per prompt, in their order.

    Raises:
        ValueError: wrong arguments; a prompt without tokens; a prompt that with `max_new_tokens` more would
            outgrow the model's positions; a tokenizer that pads on the right.
        FloatingPointError: the logits are NaN (a broken model would otherwise answer token 0 for ever).
    """
    stops = [stop] if isinstance(stop, str) else list(stop)
    _check_options(model, tok, max_new_tokens, temperature, top_p, top_k, stops, batch_size)
    rows = _encoded(model, tok, prompts, max_new_tokens)
    if isinstance(seed, Sequence | np.ndarray):
        seeds = [(_whole("seed", s), 0) for s in seed]
    else:
        seeds = [(_whole("seed", seed), i) for i in range(len(rows))]
    if len(seeds) != len(rows):
        raise ValueError(f"seed: got {len(seeds)} of them for {len(rows)} prompts, expected one per prompt")
    if any(number < 0 for number, _ in seeds):
        raise ValueError(f"seed: got {min(seeds)[0]}, expected integers >= 0")
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    warpers = _warpers(temperature, top_p, top_k)
    replies: dict[int, Reply] = {}
    with evaluating(model), bar("generate", total=len(rows) * max_new_tokens, unit="token") as shown:
        for start in range(0, len(order), batch_size):
            batch = order[start : start + batch_size]
            draws = [np.random.default_rng(seeds[i]) for i in batch] if temperature > 0 else None
            if before is not None:
                before(torch.tensor(batch, device=next(model.parameters()).device))
            found = _continue(model, tok, [rows[i] for i in batch], max_new_tokens, warpers, draws, stops, shown)
            replies |= dict(zip(batch, found, strict=True))
    return [replies[i] for i in range(len(rows))]


def _continue(
    model: Any,
    tok: Any,
    rows: list[list[int]],
    max_new_tokens: int,
    warpers: list[Any],
    draws: list[np.random.Generator] | None,
    stops: list[str],
    shown: Any,
) -> list[Reply]:
    """One batch."""
    from transformers import GenerationConfig, LogitsProcessorList, StoppingCriteriaList

    ends = _end_tokens(model, tok)
    pad = next((p for p in (tok.pad_token_id, *ends) if p is not None), 0)
    longest = max(map(len, rows))
    ids = torch.tensor([[pad] * (longest - len(row)) + row for row in rows], device=model.device)
    there = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows], device=model.device)
    pick = _Pick(warpers, draws, shown)
    end = _End(tok, longest, ends, stops)
    config: Any = GenerationConfig
    settings = config(max_new_tokens=max_new_tokens, do_sample=False, num_beams=1, use_cache=True, pad_token_id=pad)
    own = model.generation_config
    model.generation_config = config(pad_token_id=pad)  # its defaults would fill what ours leaves open
    try:
        model.generate(
            ids,
            attention_mask=there,
            generation_config=settings,
            logits_processor=LogitsProcessorList([pick]),
            stopping_criteria=StoppingCriteriaList([end]),
        )
    finally:
        model.generation_config = own
    shown.update(len(rows) * (max_new_tokens - len(pick.tokens)))
    tokens = torch.stack(pick.tokens, dim=1).tolist()
    logprobs = torch.stack(pick.logprobs, dim=1).tolist()
    replies = []
    for i, length in enumerate(end.lengths):
        kept = length or max_new_tokens
        text = tok.decode(tokens[i][:kept], skip_special_tokens=True)
        cut = min((text.find(s) for s in stops if s in text), default=len(text))
        replies.append(Reply(text[:cut], tuple(tokens[i][:kept]), tuple(logprobs[i][:kept]), length is not None))
    return replies


class _Pick:
    """As a logits processor: choose each row's next token, note it and its log-probability, force it."""

    def __init__(self, warpers: list[Any], draws: list[np.random.Generator] | None, shown: Any) -> None:
        self.warpers, self.draws, self.shown = warpers, draws, shown
        self.tokens: list[Tensor] = []
        self.logprobs: list[Tensor] = []

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        if bool(scores.isnan().any()):
            raise FloatingPointError(f"model: its logits are NaN at generated token {len(self.tokens)}")
        logs = torch.log_softmax(scores.float(), dim=-1)
        if self.draws is None:
            chosen = scores.argmax(dim=-1)
        else:
            warped = scores.float()
            warped = warped - warped.max(dim=-1, keepdim=True).values  # so that no temperature makes them overflow
            for warper in self.warpers:
                warped = warper(input_ids, warped)
            chosen = self._draw(torch.softmax(warped, dim=-1), self.draws)
        self.tokens.append(chosen)
        self.logprobs.append(logs.gather(-1, chosen[:, None]).squeeze(-1))
        self.shown.update(len(chosen))
        return torch.full_like(scores, -torch.inf).scatter_(-1, chosen[:, None], 0.0)

    @staticmethod
    def _draw(probabilities: Tensor, draws: list[np.random.Generator]) -> Tensor:
        """By inversion: one uniform number per row and token, the same on every device."""
        wide = torch.float32 if probabilities.device.type == "mps" else torch.float64
        below = probabilities.to(wide).cumsum(dim=-1)
        uniform = torch.tensor([g.random() for g in draws], dtype=wide, device=below.device)[:, None]
        return torch.searchsorted(below, uniform * below[:, -1:], right=True).squeeze(-1).clamp(max=below.shape[-1] - 1)


class _End:
    """As a stopping criterion: which rows have ended, and after how many tokens."""

    def __init__(self, tok: Any, start: int, ends: list[int], stops: list[str]) -> None:
        self.tok, self.start, self.ends, self.stops = tok, start, set(ends), stops
        self.lengths: list[int | None] = []

    def __call__(self, input_ids: Tensor, scores: Any, **rest: Any) -> Tensor:
        self.lengths = self.lengths or [None] * len(input_ids)
        for i, row in enumerate(input_ids[:, self.start :].tolist()):
            if self.lengths[i] is None and self._ended(row):
                self.lengths[i] = len(row)
        return torch.tensor([length is not None for length in self.lengths], device=input_ids.device)

    def _ended(self, row: list[int]) -> bool:
        if row[-1] in self.ends:
            return True
        if not self.stops:
            return False
        text = self.tok.decode(row, skip_special_tokens=True)
        return any(stop in text for stop in self.stops)


def _end_tokens(model: Any, tok: Any) -> list[int]:
    """Every id that ends a sequence according to the tokenizer, the config or the generation config."""
    found: list[int] = []
    for holder in (tok, model.config, model.generation_config):
        ids = getattr(holder, "eos_token_id", None)
        found += [] if ids is None else list(ids) if isinstance(ids, list | tuple) else [int(ids)]
    return list(dict.fromkeys(found))


def _warpers(temperature: float | int, top_p: float | int | None, top_k: int | None) -> list[Any]:
    if temperature == 0:
        return []
    from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

    warpers: list[Any] = [TemperatureLogitsWarper(max(float(temperature), torch.finfo(torch.float32).tiny))]
    if top_k is not None:
        warpers.append(TopKLogitsWarper(top_k))
    if top_p is not None and top_p < 1:
        warpers.append(TopPLogitsWarper(float(top_p)))
    return warpers


def _encoded(model: Any, tok: Any, prompts: Sequence[str | Sequence[int]], max_new_tokens: int) -> list[list[int]]:
    if isinstance(prompts, str):
        raise ValueError("prompts: got one text, expected a sequence of them")
    vocabulary, room = model.config.vocab_size, model.config.max_position_embeddings
    rows = []
    for i, prompt in enumerate(prompts):
        ids = tok(prompt)["input_ids"] if isinstance(prompt, str) else [int(token) for token in prompt]
        if not ids:
            raise ValueError(f"prompts: number {i} has no tokens, expected at least one to continue from")
        strange = [token for token in ids if not 0 <= token < vocabulary]
        if strange:
            raise ValueError(f"prompts: number {i} has token {strange[0]}, the model's vocabulary has {vocabulary}")
        if len(ids) + max_new_tokens > room:
            raise ValueError(
                f"max_new_tokens: prompt {i} has {len(ids)} tokens, and with {max_new_tokens} more it would be "
                f"longer than the model's {room} positions"
            )
        rows.append(ids)
    return rows


def _check_options(
    model: nn.Module,
    tok: Any,
    max_new_tokens: int,
    temperature: float | int,
    top_p: float | int | None,
    top_k: int | None,
    stops: list[str],
    batch_size: int,
) -> None:
    if not hasattr(model, "generate"):
        raise TypeError(f"model: got {type(model).__name__}, expected a causal language model of transformers")
    check_padding(tok, "tok", needs_token=False)
    for name, number in (("max_new_tokens", max_new_tokens), ("batch_size", batch_size)):
        if _whole(name, number) < 1:
            raise ValueError(f"{name}: got {number!r}, expected an integer >= 1")
    if not (math.isfinite(temperature) and temperature >= 0):
        raise ValueError(f"temperature: got {temperature}, expected a finite number >= 0 (0 is greedy)")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p: got {top_p}, expected a share in (0, 1]")
    if top_k is not None and (isinstance(top_k, bool) or top_k < 1):
        raise ValueError(f"top_k: got {top_k!r}, expected an integer >= 1")
    if temperature == 0 and (top_p is not None or top_k is not None):
        raise ValueError("temperature: is 0, where top_p and top_k have no effect; expected a number > 0 with them")
    if not all(isinstance(stop, str) and stop for stop in stops):
        raise ValueError(f"stop: got {stops}, expected texts of at least one character")


_FOLLOWS = {None: ("system", "user"), "system": ("user",), "user": ("assistant",), "assistant": ("user",)}


def _whole(name: str, number: Any) -> int:
    """An integer of any kind, NumPy's too, as Python's."""
    if isinstance(number, bool) or not hasattr(number, "__index__"):
        raise ValueError(f"{name}: got {number!r}, expected an integer")
    return operator.index(number)


def _checked(tok: Any, messages: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    if isinstance(messages, str | Mapping) or not len(messages):
        raise ValueError(f"messages: got {messages!r}, expected a list of at least one message")
    talk: list[dict[str, str]] = []
    for i, message in enumerate(messages):
        before = talk[-1]["role"] if talk else None
        talk.append(_message(tok, message, f"message {i}", _FOLLOWS[before]))
    if talk[-1]["role"] != "user":
        raise ValueError(f"messages: the last one is of the {talk[-1]['role']}, expected the user's, to be answered")
    return talk


def _message(tok: Any, message: Mapping[str, str], where: str, allowed: tuple[str, ...]) -> dict[str, str]:
    if not isinstance(message, Mapping):
        raise ValueError(f"messages: {where} is {message!r}, expected a dict with role and content")
    role, content = message.get("role"), message.get("content")
    if role not in allowed:
        raise ValueError(f"messages: {where} has role {role!r}, expected {' or '.join(map(repr, allowed))} there")
    if not isinstance(content, str) or not (content.strip() or role == "system"):
        raise ValueError(f"messages: {where} has content {content!r}, expected a text")
    # The tokenizer's own list has only those with a part to play; SmolLM2 has a dozen more, such as <repo_name>.
    added = [token.content for token in getattr(tok, "added_tokens_decoder", {}).values() if token.special]
    special = [token for token in dict.fromkeys([*tok.all_special_tokens, *added]) if token in content]
    if special:
        raise ValueError(f"messages: {where} holds the special token {special[0]!r}, which would not be read as text")
    return {"role": role, "content": content}
