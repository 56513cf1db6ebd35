"""The small models' tokenizer: byte-level BPE with 2,048 tokens, digits one by one, and the roles of a chat.

Trained on the train articles and on as many lines of the small skills as make each of their words one token.
"""

from __future__ import annotations

import functools
import itertools
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

__all__ = ["SPECIAL", "VOCABULARY", "small_tokenizer", "train_tokenizer", "wrapped"]

SPECIAL = ("<pad>", "<bos>", "<eos>", "<sys>", "<usr>", "<ast>")
VOCABULARY = 2048
_LINES = 20_000


def train_tokenizer(seed: int = 0) -> Any:
    """Train the BPE on train articles and skill lines: a `tokenizers.Tokenizer` whose ids 0–5 are `SPECIAL`."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    from icml26.language import wiki
    from icml26.language.small_skills import training_lines

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    lines = (f"{item.prompt}{item.answer}\n" for item in itertools.islice(training_lines(seed), _LINES))
    tokenizer.train_from_iterator(itertools.chain(wiki.split("train"), lines), trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<bos> $A", pair="<bos> $A $B", special_tokens=[("<bos>", 1)]
    )
    return tokenizer


def wrapped(tokenizer: Any) -> PreTrainedTokenizerFast:
    """A `tokenizers.Tokenizer` as `transformers` has them: padded on the left, `<bos>` first, chat roles known."""
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        bos_token="<bos>",
        eos_token="<eos>",
        additional_special_tokens=["<sys>", "<usr>", "<ast>"],
        padding_side="left",
        clean_up_tokenization_spaces=False,
        model_max_length=256,
    )


@functools.lru_cache(maxsize=1)
def _bytes() -> str:
    return (files("icml26.language") / "assets" / "nano" / "tokenizer.json").read_text(encoding="utf-8")


def small_tokenizer() -> PreTrainedTokenizerFast:
    """The committed tokenizer of nano and pico (a new object at each call)."""
    from tokenizers import Tokenizer

    return wrapped(Tokenizer.from_str(_bytes()))
