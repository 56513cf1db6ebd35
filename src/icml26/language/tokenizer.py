"""The small models' tokenizer: byte-level BPE with 2,048 tokens, digits one by one, and the roles of a chat.

Trained on the train articles and on as many lines of the small skills as make each of their words one token.
"""

from __future__ import annotations

import itertools
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

__all__ = [
    "FILE",
    "SMALL_TEMPLATE",
    "SPECIAL",
    "VOCABULARY",
    "check_padding",
    "small_tokenizer",
    "train_tokenizer",
    "wrapped",
]

SMALL_TEMPLATE = (
    "{{ bos_token }}"
    "{% for message in messages %}"
    "{% if message['role'] == 'system' %}{% if message['content'] %}<sys>{{ message['content'] }}{% endif %}"
    "{% elif message['role'] == 'user' %}<usr>{{ message['content'] }}"
    "{% else %}<ast>{{ message['content'] }}{{ eos_token }}{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}<ast>{% endif %}"
)
"""Chat template (Jinja) of the small models: `<bos><sys>…<usr>…<ast>…<eos><usr>…<ast>`, no `<sys>` if it is empty."""
SPECIAL = ("<pad>", "<bos>", "<eos>", "<sys>", "<usr>", "<ast>")
VOCABULARY = 2048
FILE = Path(str(files("icml26.language") / "assets" / "tokenizer.json"))
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
        chat_template=SMALL_TEMPLATE,
        clean_up_tokenization_spaces=False,
        model_max_length=256,
    )


def small_tokenizer(file: Path = FILE) -> PreTrainedTokenizerFast:
    """The committed tokenizer of nano and pico (a new object at each call)."""
    from tokenizers import Tokenizer

    return wrapped(Tokenizer.from_file(str(file)))


def check_padding(tokenizer: Any, name: str = "tokenizer", needs_token: bool = True) -> None:
    """ValueError unless a tokenizer pads on the left and, where that is needed, has a pad token.

    A decoder continues a prompt at its last position; with padding on the right that is a pad token for all but the
    longest prompt of a batch. `name` is what the caller calls the argument.
    """
    if tokenizer.padding_side != "left":
        raise ValueError(f"{name}: pads on the {tokenizer.padding_side!r} side, expected padding_side = 'left'")
    if needs_token and tokenizer.pad_token_id is None:
        raise ValueError(f"{name}: has no pad token, expected one ({name}.pad_token = {name}.eos_token)")
