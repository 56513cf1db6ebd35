"""`load_lm`: names, dtypes, devices, sources and what is said when a model is not there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers import models as tokenizer_models
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from icml26.lab.download import OfflineError
from icml26.language import models, smollm2
from icml26.language.pins import COMMAND, NotFetchedError

SOURCE = Path(models.__file__).parents[2]
SPECIAL = ["<pad>", "<bos>", "<eos>", "<sys>", "<usr>", "<ast>"]


@pytest.fixture(autouse=True)
def cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The profile `cpu`, no network, an empty cache."""
    monkeypatch.setenv("ICML26_PROFILE", "cpu")
    monkeypatch.setenv("ICML26_OFFLINE", "1")
    monkeypatch.setenv("ICML26_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ICML26_SMOKE", raising=False)


def write_small(folder: Path, half: bool = True) -> LlamaForCausalLM:
    """A committed small model as the training scripts write it: weights in float16, a tokenizer.json, no more."""
    folder.mkdir(parents=True)
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=20, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
        max_position_embeddings=32, tie_word_embeddings=True, pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    if half:
        model = model.half()
    model.save_pretrained(folder)
    vocabulary = {token: i for i, token in enumerate([*SPECIAL, "a", "b", "[UNK]"])}
    tokenizer = Tokenizer(tokenizer_models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.save(str(folder.parent / "tokenizer.json"))
    return model


@pytest.fixture
def assets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(models, "assets_folder", lambda name: tmp_path / "assets" / name)
    return tmp_path / "assets"


# --- names -----------------------------------------------------------------------------------------------------------


def test_the_known_names() -> None:
    assert list(models.available_lms()) == ["smollm2", "smollm2-hub", "nano", "pico"]
    models.available_lms().clear()
    assert models.available_lms()


@pytest.mark.parametrize(
    ("name", "said"),
    [("smolm2", "did you mean 'smollm2'"), ("NANO", "did you mean 'nano'"), ("gpt", "unknown model 'gpt'; the known")],
)
def test_an_unknown_name_lists_the_known(name: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        models.load_lm(name)
    assert all(known in str(caught.value) for known in models.available_lms())


@pytest.mark.parametrize("name", ["", "a/b/c", "../nano", "/etc/passwd", "a/", "a/b@", "https://example.org/a"])
def test_what_is_no_hub_id_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="unknown model"):
        models.load_lm(name)


def test_hub_ids_are_pinned_where_the_book_names_one() -> None:
    assert all(len(revision) == 40 for revision in models.HUB_REVISIONS.values())
    assert models._resolve("smollm2-hub") == ("smollm2-hub", *next(iter(models.HUB_REVISIONS.items())))
    assert models._resolve("Qwen/Qwen3-0.6B")[2] == models.HUB_REVISIONS["Qwen/Qwen3-0.6B"]
    assert models._resolve("Qwen/Qwen3-0.6B@main")[1:] == ("Qwen/Qwen3-0.6B", "main")
    assert models._resolve("a/b") == ("a/b", "a/b", None)


# --- dtype and device ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["fp16", "int8", torch.int64, torch.bool])
def test_no_dtype(dtype: str | torch.dtype) -> None:
    with pytest.raises(ValueError, match="dtype: got"):
        models.load_lm("nano", dtype=dtype)


@pytest.mark.parametrize("device", ["gpu", "cuda:99", "cpu:x"])
def test_no_device(device: str) -> None:
    with pytest.raises(ValueError, match="device: got"):
        models.load_lm("nano", device=device)


@pytest.mark.parametrize("faster", [True, False])
def test_auto_on_the_cpu(monkeypatch: pytest.MonkeyPatch, faster: bool) -> None:
    """Float32 in the profile cpu whatever the machine can; elsewhere what the self-test says."""
    monkeypatch.setattr(models, "_bfloat16_is_faster", lambda: faster)
    cpu = torch.device("cpu")
    assert models._dtype("auto", cpu) is torch.float32
    monkeypatch.setenv("ICML26_PROFILE", "paper")
    assert models._dtype("auto", cpu) is (torch.bfloat16 if faster else torch.float32)


@pytest.mark.parametrize(
    ("profile", "capability", "expected"),
    [
        ("gpu", (7, 5), torch.float16),
        ("gpu", (9, 0), torch.float16),
        ("paper", (7, 5), torch.float16),
        ("paper", (8, 0), torch.bfloat16),
    ],
)
def test_auto_on_a_gpu(
    monkeypatch: pytest.MonkeyPatch, profile: str, capability: tuple[int, int], expected: torch.dtype
) -> None:
    monkeypatch.setenv("ICML26_PROFILE", profile)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert models._dtype("auto", torch.device("cuda")) is expected


def test_the_self_test_is_short_and_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    models._bfloat16_is_faster.cache_clear()
    now, step = [0.0], {torch.float32: 1e-3, torch.bfloat16: 5e-4}
    calls = []

    def linear(x: torch.Tensor, weight: torch.Tensor) -> None:
        calls.append(x.dtype)
        now[0] += step[x.dtype]

    monkeypatch.setattr(models.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(torch.nn.functional, "linear", linear)
    assert models._bfloat16_is_faster()
    assert now[0] < 0.25
    before = len(calls)
    assert models._bfloat16_is_faster()
    assert len(calls) == before
    models._bfloat16_is_faster.cache_clear()
    step[torch.bfloat16] = 2e-3
    assert not models._bfloat16_is_faster()
    models._bfloat16_is_faster.cache_clear()


# --- the committed small models --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["nano", "pico"])
def test_a_small_model_is_float32_when_loaded(assets: Path, name: str) -> None:
    written = write_small(assets / name)
    model, tokenizer = models.load_lm(name)
    assert type(model) is LlamaForCausalLM
    assert not model.training
    assert all(p.requires_grad for p in model.parameters())
    for key, value in model.state_dict().items():
        assert value.dtype == torch.float32
        assert torch.equal(value, written.state_dict()[key].float())
    assert tokenizer.convert_ids_to_tokens(range(6)) == SPECIAL
    assert (tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id) == (0, 1, 2)
    assert set(SPECIAL) <= set(tokenizer.all_special_tokens)
    models.check_padding(tokenizer)
    batch = tokenizer(["a b a", "b"], padding=True, return_tensors="pt")
    assert batch["input_ids"][1].tolist() == [0, 0, 7]
    model(**batch)


def test_dtypes_by_name_and_by_object(assets: Path) -> None:
    write_small(assets / "pico")
    for dtype, expected in (("bfloat16", torch.bfloat16), (torch.float64, torch.float64)):
        assert models.load_lm("pico", dtype=dtype)[0].dtype == expected


@pytest.mark.parametrize("lost", ["model.safetensors", "tokenizer.json", "config.json"])
def test_a_missing_small_model_names_its_script(assets: Path, lost: str) -> None:
    write_small(assets / "nano")
    (assets / lost if lost == "tokenizer.json" else assets / "nano" / lost).unlink()
    with pytest.raises(FileNotFoundError, match=rf"lacks {lost}.*scripts/train_nano\.py"):
        models.load_lm("nano")


def test_pico_has_the_small_tokenizer(assets: Path) -> None:
    write_small(assets / "pico")
    _, tokenizer = models.load_lm("pico")
    assert tokenizer("a b")["input_ids"] == [6, 7]


def test_the_assets_are_looked_for_in_the_package() -> None:
    assert models.assets_folder("pico") == Path(models.__file__).parent / "assets" / "pico"


def test_nothing_is_printed(assets: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Notebooks store what is printed."""
    from transformers.utils import logging

    write_small(assets / "nano")
    shown = logging.is_progress_bar_enabled()
    capfd.readouterr()
    models.load_lm("nano")
    assert capfd.readouterr() == ("", "")
    assert logging.is_progress_bar_enabled() == shown


# --- helpers ---------------------------------------------------------------------------------------------------------


def test_wrong_padding_is_refused(assets: Path) -> None:
    write_small(assets / "nano")
    _, tokenizer = models.load_lm("nano")
    tokenizer.padding_side = "right"
    with pytest.raises(ValueError, match="tokenizer: pads on the 'right' side, expected .*'left'"):
        models.check_padding(tokenizer)
    tokenizer.padding_side = "left"
    tokenizer.pad_token = None
    with pytest.raises(ValueError, match="no pad token"):
        models.check_padding(tokenizer)


# --- the hub ---------------------------------------------------------------------------------------------------------


def test_a_hub_model_without_network(tmp_path: Path) -> None:
    with pytest.raises(NotFetchedError, match=r"load_lm\('nobody/nothing-at-all@main'\)") as caught:
        models.load_lm("nobody/nothing-at-all@main")
    assert isinstance(caught.value, FileNotFoundError)
    assert isinstance(caught.value, OfflineError)
    assert COMMAND in str(caught.value)


def test_the_pinned_revision_is_taken_from_the_hubs_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the hub's cache as a download leaves it, and no network."""
    revision = models.HUB_REVISIONS[models.SMOLLM2_HUB]
    repository = tmp_path / "hub" / "models--HuggingFaceTB--SmolLM2-135M-Instruct"
    snapshot = repository / "snapshots" / revision
    written = write_small(snapshot, half=False)
    PreTrainedTokenizerFast(
        tokenizer_file=str(snapshot.parent / "tokenizer.json"), pad_token="<pad>", eos_token="<eos>"
    ).save_pretrained(snapshot)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("f" * 40)  # the branch has moved on; the pin has not
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    for name in ("smollm2-hub", models.SMOLLM2_HUB, f"{models.SMOLLM2_HUB}@{revision}"):
        model, tokenizer = models.load_lm(name)
        assert type(model) is LlamaForCausalLM
        assert model.dtype == torch.float32
        assert torch.equal(model.lm_head.weight, written.lm_head.weight)
        assert tokenizer("a b")["input_ids"] == [6, 7]
        models.check_padding(tokenizer)
    with pytest.raises(NotFetchedError):
        models.load_lm(f"{models.SMOLLM2_HUB}@main")
    monkeypatch.delenv("ICML26_OFFLINE")  # nor is the network asked about a commit that is there
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("asked the network"))
    models.load_lm("smollm2-hub")
    monkeypatch.setenv("ICML26_OFFLINE", "1")
    (snapshot / "tokenizer.json").unlink()
    with pytest.raises(NotFetchedError, match="did not give it"):
        models.load_lm("smollm2-hub")


def test_smollm2_without_its_package_falls_back_to_the_hub_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def missing() -> Path:
        raise NotFetchedError("pip could not fetch it")

    def hub(hub_id: str, revision: str | None, dtype: torch.dtype) -> tuple[str, str]:
        asked.append((hub_id, revision, dtype))
        return "model", "tokenizer"

    monkeypatch.setattr(smollm2, "folder", missing)
    monkeypatch.setattr(models, "_from_hub", hub)
    with pytest.raises(NotFetchedError, match="pip could not"):  # the network is forbidden
        models._carried(torch.float32)
    assert asked == []
    monkeypatch.delenv("ICML26_OFFLINE")
    with pytest.warns(UserWarning, match="hub's original instead.*numbers will differ"):
        assert models._carried(torch.float32) == ("model", "tokenizer")
    assert asked == [(models.SMOLLM2_HUB, models.HUB_REVISIONS[models.SMOLLM2_HUB], torch.float32)]

    def unreachable(*_: object) -> None:
        raise NotFetchedError("no hub")

    monkeypatch.setattr(models, "_from_hub", unreachable)
    with pytest.raises(NotFetchedError, match="pip could not"):
        models._carried(torch.float32)


# --- the smoke run ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "vocabulary", "width"),
    [("smollm2", 49152, 576), ("nano", 2048, 192), ("pico", 2048, 64), ("Qwen/Qwen3-0.6B", 49152, 576)],
)
def test_a_smoke_run_fetches_nothing(
    name: str, vocabulary: int, width: int, assets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ICML26_SMOKE", "1")
    state = torch.get_rng_state()
    model, tokenizer = models.load_lm(name)
    assert torch.equal(torch.get_rng_state(), state)
    assert type(model) is LlamaForCausalLM
    assert (model.config.num_hidden_layers, model.config.vocab_size, model.config.hidden_size) == (2, vocabulary, width)
    models.check_padding(tokenizer)
    batch = tokenizer(["naïve 12", "🙂"], padding=True, return_tensors="pt")
    assert torch.isfinite(model(**batch).logits).all()
    ids = tokenizer("naïve 12 🙂")["input_ids"]
    assert tokenizer.decode(ids, skip_special_tokens=True) == "naïve 12 🙂"
    assert len(set(ids)) < len(tokenizer) <= vocabulary
    again, _ = models.load_lm(name)
    assert torch.equal(again.lm_head.weight, model.lm_head.weight)
    assert not (tmp_path / "cache" / "models").exists()
    if "/" in name or name == "smollm2":
        assert "<|im_start|>user\nHi" in tokenizer.apply_chat_template(
            [{"role": "user", "content": "Hi"}], tokenize=False
        )
    else:
        assert tokenizer.convert_ids_to_tokens(range(6)) == SPECIAL
        assert ids[0] == 1


# --- imports ---------------------------------------------------------------------------------------------------------


def test_the_modules_import_neither_transformers_nor_gensim() -> None:
    code = (
        "import sys, icml26.language.models, icml26.language.smollm2, icml26.language.embeddings, "
        "icml26.language.fetch, icml26.language.gguf_llama\n"
        "print([name for name in ('transformers', 'gguf', 'gensim', 'accelerate') if name in sys.modules])"
    )
    path = os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])
    ran = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    assert ran.stdout == "[]\n", ran.stderr


def test_without_transformers_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ImportError, match=r"pip install 'icml26\[language\]'"):
        models.load_lm("nano")


def test_a_kind_of_device_that_is_not_here_is_a_value_error() -> None:
    kind = next(kind for kind in ("xpu", "mps") if not getattr(torch, kind).is_available())
    with pytest.raises(ValueError, match=f"device: got '{kind}'"):
        models.checked_device(kind)
