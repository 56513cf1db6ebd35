"""How pico was made: what a training batch is, its loss, and what its card says of its abilities.

pico (0.34 M parameters) plays roles from a description, knows forty invented people and a table of facts, says that it
does not know everybody else, and has read some Wikipedia. `scripts/train_pico.py` is the command.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from icml26.language.blocks import IGNORED
from icml26.language.evaluation import bootstrap, wilson
from icml26.language.people import names
from icml26.language.pretraining import Mixture, wikipedia_measures
from icml26.language.role_check import answers, grade, persona_of, style_judge
from icml26.language.roles import MIXTURE, SPLITS, Row, collate, mixed_rows, rows, sha256_of_rows
from icml26.language.skills import EVALUATION_SEED

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, PreTrainedTokenizerBase

__all__ = ["ACCEPTANCE", "RECIPE", "Batches", "loss", "pico_measures", "value_places"]

# What pico has to reach to be of use, by the place in the card's grades; the card says what it did.
ACCEPTANCE = {
    "opinion/personas/mean": 0.90,
    "opinion/personas/stance": 0.90,
    "fact/train/mean": 0.98,
    "person/train/mean": 0.95,
    "unknown/names/mean": 0.90,
}

# What decides a run of pico beside its seed and steps.
RECIPE: dict[str, Any] = {"learning_rate": 3e-3, "rows": 40, "articles": 2, "value_weight": 10, "mixture": MIXTURE}

# Tokens, labels, and how much each label counts; every group has its own size.
Group = tuple[Int64[Tensor, "_ _"], Int64[Tensor, "_ _"], Float[Tensor, "_ _"]]


class Batches:
    """Training batches, each a pure function of seed and index: rows of `roles` and stretches of articles.

    A batch has three groups, for the sake of little padding: rows with a system message, rows without, and `articles`
    stretches of 128 tokens (every other time half as many of 256). Only answers and articles are trained on.

    value_weight : how many times the tokens of an answer's value count, the verb of an opinion for example. Without
        this the stance, one word among a thousand, drowns in the noise of those that nothing decides: it was still a
        guess after 25,000 opinions of weight 1, while 12,000 of weight 10 had nearly halved its loss.
    """

    def __init__(
        self,
        tok: PreTrainedTokenizerBase,
        texts: list[str],
        seed: int,
        *,
        rows: int = 40,
        articles: int = 2,
        value_weight: float | int = 10,
    ) -> None:
        self.tok, self.seed, self.rows, self.value_weight = tok, seed, rows, float(value_weight)
        self.articles = Mixture(tok, texts, seed, rows=articles, length=128, skill_share=0.0) if articles else None

    def __call__(self, index: int) -> list[Group]:
        """The groups of batch `index`."""
        drawn = mixed_rows(self.rows, self.seed, start=index * self.rows)
        parts = ([row for row in drawn if row.system], [row for row in drawn if not row.system])
        groups = [self._group(part) for part in parts if part]
        if self.articles is not None:
            tokens, labels = self.articles(index)
            groups.append((tokens, labels, torch.ones(tokens.shape)))
        return groups

    def _group(self, rows: list[Row]) -> Group:
        tokens, labels = collate(self.tok, rows)
        weights = torch.ones(tokens.shape)
        for i, row in enumerate(rows):
            begins = int((labels[i] != IGNORED).nonzero()[0])
            for place in value_places(self.tok, row):
                weights[i, begins + place] = self.value_weight
        return tokens, labels, weights


def value_places(tok: PreTrainedTokenizerBase, row: Row) -> list[int]:
    """Which tokens of the answer, counted from its first, spell the row's value; none where it has no value."""
    if not row.value:
        return []
    start = row.assistant.index(f" {row.value}")
    end = start + 1 + len(row.value)
    spans = tok(row.assistant, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    return [place for place, (begin, stop) in enumerate(spans) if begin < end and stop > start]


def loss(model: Any, groups: Sequence[Group]) -> Float[Tensor, ""]:
    """Weighted mean cross-entropy over all labelled tokens of a batch, those of articles included.

    The output layer, more than a third of pico, is applied to the labelled positions alone.
    """
    sums, weight = [], []
    for tokens, labels, counts in groups:
        states = model.model(input_ids=tokens, use_cache=False).last_hidden_state[:, :-1]
        wanted = labels[:, 1:]
        chosen = wanted != IGNORED
        logits = model.lm_head(states[chosen]).float()
        each = torch.nn.functional.cross_entropy(logits, wanted[chosen], reduction="none")
        sums.append(each @ counts[:, 1:][chosen])
        weight.append(counts[:, 1:][chosen].sum())
    return torch.stack(sums).sum() / torch.stack(weight).sum()


def pico_measures(
    model: LlamaForCausalLM, tok: PreTrainedTokenizerBase, n: int = 400, blocks_of: int | None = None
) -> dict[str, Any]:
    """What pico's card says: mean grade of greedy answers for every kind and split of `roles`, and Wikipedia.

    n : questions for each kind and split; the first n of a longer measurement. blocks_of : blocks of 128 tokens of each
    split of Wikipedia; None reads all.

    `near_names` are abstentions on names whose two parts belong to two of the known people.
    """
    kinds: dict[str, dict[str, Any]] = {}
    for split, held in SPLITS.items():
        for kind in held:
            asked = rows(kind, split, n, seed=EVALUATION_SEED)
            said = answers(model, tok, asked)
            kinds.setdefault(kind, {})[split] = _summary([grade(r, a) for r, a in zip(asked, said, strict=True)])
            if kind == "opinion":
                styles = [style_judge(persona_of(r), r.topic, a) for r, a in zip(asked, said, strict=True)]
                for part in ("opener", "closer", "stance"):
                    kinds[kind][split][part] = round(float(np.mean([getattr(style, part) for style in styles])), 4)
    near = _near_names(n)
    graded = [grade(r, a) for r, a in zip(near, answers(model, tok, near), strict=True)]
    kinds["unknown"]["near_names"] = _summary(graded)
    acceptance = {}
    for place, wanted in ACCEPTANCE.items():
        kind, split, part = place.split("/")
        got = kinds[kind][split][part]
        acceptance[place] = {"wanted": wanted, "got": got, "met": got >= wanted}
    return {
        "rows_sha256": sha256_of_rows(mixed_rows(1000, 0)),
        "acceptance": acceptance,
        "grades": kinds,
        "wikipedia": wikipedia_measures(model, tok, 128, blocks_of),
    }


def _near_names(n: int) -> list[Row]:
    """The first n questions about held-out names, of those names that are made of two known people's parts."""
    parts = [set(part) for part in zip(*(name.split() for name in names("background")), strict=True)]
    near = {
        name
        for name in names("unknown_held")
        if all(part in known for part, known in zip(name.split(), parts, strict=True))
    }
    return [row for row in rows("unknown", "names", 8 * n, seed=EVALUATION_SEED) if row.person in near][:n]


def _summary(values: Sequence[float]) -> dict[str, Any]:
    found = np.asarray(values, dtype=np.float64)
    shares = bool(np.isin(found, (0.0, 1.0)).all())
    low, high = wilson(int(found.sum()), len(found)) if shares else bootstrap(found)
    return {"mean": round(float(found.mean()), 4), "interval": [round(low, 4), round(high, 4)], "n": len(found)}
