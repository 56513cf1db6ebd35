"""Items as padded tensors, made once and used for every intervention.

A candidate is one text whose likelihood is wanted after a prompt: a right answer, or one of the choices. Candidates
that read the same tokens share a row (" is" and " are" after the same prompt are two columns of the same logits).
Rows are sorted by length, so that a batch holds little padding; the order depends on the items, tokenizer, mode and
batch size alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from icml26.language.skills import MODES, Item
from icml26.language.tokenizer import check_padding

__all__ = ["Batch", "Pair", "Prepared", "encode", "prepare"]

Text = str | Sequence[int]
"""A text, or token ids, which are taken as they are."""
Pair = tuple[Text, Text]
"""A prompt and what should follow it."""


@dataclass(frozen=True)
class Batch:
    """Rows for one forward pass, padded on the left, and the candidates read off them.

    input_ids, attention_mask, position_ids : what the model reads: prompt and answer without its last token.
    targets, counted : of each candidate its tokens, right-aligned to the longest answer, and which are its own.
    row : the row that each candidate reads. candidates : their places in the order of `Prepared.owner`.
    copy : which copy (intervention) each row belongs to; zeros unless repeated.
    """

    input_ids: Int[Tensor, "rows t"]
    attention_mask: Int[Tensor, "rows t"]
    position_ids: Int[Tensor, "rows t"]
    targets: Int[Tensor, "c k"]
    counted: Bool[Tensor, "c k"]
    row: Int[Tensor, "c"]
    candidates: Int[Tensor, "c"]
    copy: Int[Tensor, "rows"]

    def to(self, device: torch.device | str) -> Batch:
        return replace(self, **{f.name: getattr(self, f.name).to(device) for f in fields(self)})

    def repeat(self, copies: int) -> Batch:
        """All rows `copies` times, copy after copy; the candidates likewise."""
        if copies == 1:
            return self
        rows = len(self.input_ids)
        shift = torch.arange(copies, device=self.row.device)
        return Batch(
            self.input_ids.repeat(copies, 1),
            self.attention_mask.repeat(copies, 1),
            self.position_ids.repeat(copies, 1),
            self.targets.repeat(copies, 1),
            self.counted.repeat(copies, 1),
            (self.row + rows * shift[:, None]).flatten(),
            self.candidates.repeat(copies),
            shift.repeat_interleave(rows),
        )


@dataclass(frozen=True)
class Prepared:
    """Batches, and what connects their candidates to the items.

    owner : the item of each candidate. right : whether the candidate is a right answer (else a wrong choice).
    tokens : its length. answers : of each item, the candidate that is `item.answer`. longest : tokens of the longest
    prompt with its answer.
    """

    items: tuple[Item | Pair, ...]
    batches: tuple[Batch, ...]
    owner: Int[np.ndarray, "c"]
    right: Bool[np.ndarray, "c"]
    tokens: Int[np.ndarray, "c"]
    answers: Int[np.ndarray, "n"]
    longest: int

    @property
    def candidates(self) -> int:
        return len(self.owner)

    @property
    def columns(self) -> int:
        """Tokens that one pass reads, padding included."""
        return sum(batch.input_ids.numel() for batch in self.batches)

    def to(self, device: torch.device | str) -> Prepared:
        """On another device, so that repeated use moves nothing."""
        return replace(self, batches=tuple(batch.to(device) for batch in self.batches))


def prepare(tok: Any, items: Sequence[Item | Pair], mode: str = "exact", batch_size: int = 32) -> Prepared:
    """Tokenise and pad items for `measure`.

    items : skill items, or (prompt, answer) as texts or token ids. `chat.chat_ids` makes the ids of a conversation.
    mode : "exact" and "first" look at all right answers, "logprob" at `answer` alone, "choice" at the choices.
    batch_size : rows of one batch before it is repeated for several interventions.

    Raises ValueError for an unknown mode, a batch size below 1, no items, a tokenizer that does not pad on the left or
    has no padding token, an item without choices in mode "choice", and as `encode` does.
    """
    if mode not in MODES:
        raise ValueError(f"mode: got {mode!r}, expected one of {list(MODES)}")
    if batch_size < 1:
        raise ValueError(f"batch_size: got {batch_size}, expected at least 1")
    if not items:
        raise ValueError("items: got none, expected at least one")
    check_padding(tok, "tok")
    prompts, answers, owner, right = _candidates(items, mode)
    sequences = encode(tok, prompts, answers)
    rows: dict[tuple[int, ...], list[int]] = {}
    for candidate, (prompt, answer) in enumerate(sequences):
        rows.setdefault((*prompt, *answer[:-1]), []).append(candidate)
    order = sorted(rows, key=len)  # stable: rows of equal length keep the order of the items
    batches = [
        _batch([(key, rows[key]) for key in order[at : at + batch_size]], sequences, int(tok.pad_token_id))
        for at in range(0, len(order), batch_size)
    ]
    owners = np.array(owner, dtype=np.int64)
    return Prepared(
        tuple(items),
        tuple(batches),
        owners,
        np.array(right, dtype=np.bool_),
        np.array([len(answer) for _, answer in sequences], dtype=np.int64),
        np.unique(owners, return_index=True)[1].astype(np.int64),  # the answer comes first among an item's candidates
        max(len(prompt) + len(answer) for prompt, answer in sequences),
    )


def encode(tok: Any, prompts: Sequence[Text], answers: Sequence[Text]) -> list[tuple[list[int], list[int]]]:
    """Tokens of each prompt and of the answer that follows it, cut where the text is cut.

    Two texts are tokenised as a whole, as a model meets them. A tokenizer that merges over the border would make the
    prompt end inside of a token: such a pair raises ValueError. So does a text that says the `<bos>` that the
    tokenizer adds. Token ids stay as they are, and a text beside them is tokenised alone, an answer without `<bos>`.
    """
    alone = [_ids(tok, "prompt", prompt) for prompt in prompts]
    texts = [i for i, pair in enumerate(zip(prompts, answers, strict=True)) if all(isinstance(t, str) for t in pair)]
    whole = dict(
        zip(texts, tok([f"{prompts[i]}{answers[i]}" for i in texts])["input_ids"], strict=True) if texts else ()
    )
    pairs = []
    for i, (prompt, answer, short) in enumerate(zip(prompts, answers, alone, strict=True)):
        if i not in whole:
            pairs.append((short, _ids(tok, "answer", answer)))
            continue
        long = list(whole[i])
        if long[: len(short)] != short or len(long) == len(short):
            raise ValueError(
                f"answer: the tokens of {prompt!r} are no beginning of those of {f'{prompt}{answer}'!r}; expected a "
                "border between prompt and answer that the tokenizer keeps (white space belongs to the answer)"
            )
        pairs.append((short, long[len(short) :]))
    return pairs


def _ids(tok: Any, name: str, text: Text) -> list[int]:
    """Token ids of one text; with what the tokenizer puts before it if it is a prompt."""
    if isinstance(text, str):
        ids = list(tok(text, add_special_tokens=name == "prompt")["input_ids"])
        if len(ids) > 1 and ids[0] == ids[1] == tok.bos_token_id:
            raise ValueError(
                f"{name}: {text!r} begins with {tok.bos_token!r}, which the tokenizer adds itself; expected a text "
                "without it, or token ids (chat.chat_ids gives those of a conversation)"
            )
    else:
        ids = [int(token) for token in text]
        strange = [token for token in ids if not 0 <= token < len(tok)]
        if strange:
            raise ValueError(f"{name}: got token {strange[0]}, expected ids from 0 to {len(tok) - 1}")
    if not ids:
        raise ValueError(f"{name}: {text!r} has no tokens, expected at least one")
    return ids


def _candidates(items: Sequence[Item | Pair], mode: str) -> tuple[list[Text], list[Text], list[int], list[bool]]:
    prompts: list[Text] = []
    answers: list[Text] = []
    owner: list[int] = []
    right: list[bool] = []
    for i, item in enumerate(items):
        prompt, answer = (item.prompt, item.answer) if isinstance(item, Item) else item
        mine = [(answer, True)]
        if mode in ("exact", "first") and isinstance(item, Item):
            mine += [(text, True) for text in item.accepted]
        if mode == "choice":
            if not isinstance(item, Item) or not item.choices:
                raise ValueError(f"items: {prompt!r} has no choices, which mode 'choice' needs")
            mine += [(text, False) for text in item.choices if text != answer]
        for text, good in mine:
            prompts.append(prompt)
            answers.append(text)
            owner.append(i)
            right.append(good)
    return prompts, answers, owner, right


def _batch(
    rows: Sequence[tuple[tuple[int, ...], list[int]]], sequences: Sequence[tuple[list[int], list[int]]], pad: int
) -> Batch:
    members = [(at, candidate) for at, (_, owned) in enumerate(rows) for candidate in owned]
    width = max(len(key) for key, _ in rows)
    k = max(len(sequences[candidate][1]) for _, candidate in members)
    ids = torch.full((len(rows), width), pad, dtype=torch.int64)
    mask = torch.zeros((len(rows), width), dtype=torch.int64)
    for at, (key, _) in enumerate(rows):
        ids[at, width - len(key) :] = torch.tensor(key)
        mask[at, width - len(key) :] = 1
    targets = torch.zeros((len(members), k), dtype=torch.int64)
    counted = torch.zeros((len(members), k), dtype=torch.bool)
    for at, (_, candidate) in enumerate(members):
        answer = sequences[candidate][1]
        targets[at, k - len(answer) :] = torch.tensor(answer)
        counted[at, k - len(answer) :] = True
    return Batch(
        ids,
        mask,
        (mask.cumsum(dim=1) - 1).clamp(min=0),
        targets,
        counted,
        torch.tensor([at for at, _ in members], dtype=torch.int64),
        torch.tensor([candidate for _, candidate in members], dtype=torch.int64),
        torch.zeros(len(rows), dtype=torch.int64),
    )
