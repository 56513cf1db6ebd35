"""Sentence embeddings against the reference library, and their cache under faults."""

import hashlib
import importlib.util
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from icml26.lab.download import cache_dir
from icml26.language import embeddings
from icml26.language.embeddings import embed, minilm
from icml26.language.pins import COMMAND, NotFetchedError, brought
from icml26.language.vector_cache import VectorCache

SOURCE = Path(embeddings.__file__).parents[2]
TEXTS = [
    "A man is eating food.",
    "Somebody eats a meal.",
    "The stock market fell sharply today.",
    "Share prices dropped a lot this morning.",
    "naïve café — 中文, 🙂",
    "A longer text about trees, rivers and the birds that live beside them. " * 6,
]


@pytest.fixture(scope="module")
def loaded() -> tuple[transformers.BertModel, transformers.PreTrainedTokenizerBase]:
    if brought(embeddings.PACKAGE) is None:
        pytest.skip(f"MiniLM is not on this machine: run {COMMAND}")
    return minilm("cpu")


@pytest.fixture
def cache(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    loaded: tuple[transformers.BertModel, transformers.PreTrainedTokenizerBase],
) -> Path:
    """An empty cache but for the unpacked package; the encoder is loaded once for all tests."""
    packages = cache_dir() / "carriers"
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "carriers").symlink_to(packages)
    monkeypatch.setenv("ICML26_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ICML26_PROFILE", "cpu")
    monkeypatch.delenv("ICML26_SMOKE", raising=False)
    monkeypatch.setattr(embeddings, "_kept", lambda *_: loaded)
    return tmp_path / "cache"


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What reaches the model, call by call."""
    calls: list[list[str]] = []
    real = embeddings._encode

    def encode(texts: list[str], batch_size: int, device: torch.device) -> np.ndarray:
        calls.append(texts)
        return real(texts, batch_size, device)

    monkeypatch.setattr(embeddings, "_encode", encode)
    return calls


# --- values ----------------------------------------------------------------------------------------------------------


def test_unit_vectors_in_the_order_of_the_texts(cache: Path) -> None:
    vectors = embed(TEXTS)
    assert vectors.shape == (6, 384)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    for text, vector in zip(TEXTS, vectors, strict=True):
        np.testing.assert_allclose(embed([text], cache=False)[0], vector, atol=2e-6)
    np.testing.assert_allclose(embed(TEXTS, batch_size=2, cache=False), vectors, atol=2e-6)
    np.testing.assert_array_equal(embed(TEXTS[::-1]), vectors[::-1])


def test_like_texts_are_near_each_other(cache: Path) -> None:
    food, meal, market, prices, *_ = embed(TEXTS)
    assert min(food @ meal, market @ prices) > 0.4
    assert max(food @ market, food @ prices, meal @ market, meal @ prices) < 0.2
    king, queen, banana = embed(["king", "queen", "banana"])
    assert king @ queen > king @ banana + 0.2


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("sentence_transformers") is None, reason="sentence-transformers is not installed"
)
def test_as_sentence_transformers_has_it(cache: Path) -> None:
    from sentence_transformers import SentenceTransformer

    reference = SentenceTransformer(str(brought(embeddings.PACKAGE) / embeddings.FOLDER), device="cpu")
    assert reference.max_seq_length == embeddings.MAX_PIECES
    texts = [*TEXTS, "word " * 400]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours = embed(texts, cache=False, device="cpu")
    np.testing.assert_allclose(ours, reference.encode(texts, normalize_embeddings=True), atol=1e-5)


def test_by_hand(cache: Path) -> None:
    """One text, no batch: mean over all positions, length one."""
    model, tokenizer = minilm("cpu")
    with torch.no_grad():
        mean = model(**tokenizer(TEXTS[0], return_tensors="pt")).last_hidden_state[0].mean(0)
    np.testing.assert_allclose(embed(TEXTS)[0], (mean / mean.norm()).numpy(), atol=2e-6)


def test_the_encoder_is_kept_for_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr(embeddings, "minilm", lambda device: calls.append(device) or ("model", "tokenizer"))
    embeddings._kept.cache_clear()
    here = (torch.device("cpu"), False, Path("a"))
    assert embeddings._kept(*here) is embeddings._kept(*here)
    assert len(calls) == 1
    embeddings._kept(torch.device("cpu"), False, Path("b"))
    assert len(calls) == 2
    embeddings._kept.cache_clear()


def test_the_encoder(cache: Path) -> None:
    model, tokenizer = minilm()
    assert sum(p.numel() for p in model.parameters()) == 22_713_216 - 384 * 385  # without the pooling layer
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert not model.training
    assert tokenizer.model_max_length == 256
    weights = brought(embeddings.PACKAGE) / embeddings.FOLDER / "model.safetensors"
    assert hashlib.sha256(weights.read_bytes()).hexdigest() == embeddings.WEIGHTS_SHA256


def test_long_texts_are_cut_and_counted(cache: Path) -> None:
    long = "tree river " * 300
    with pytest.warns(UserWarning, match="1 of 2 texts are longer than 256 word pieces"):
        vectors = embed([long, "tree"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exactly = embed(["tree river " * 127])  # 254 pieces and the two marks
    np.testing.assert_allclose(vectors[0], exactly[0], atol=1e-5)


def test_nothing_is_printed(cache: Path, capfd: pytest.CaptureFixture[str]) -> None:
    embed(TEXTS[:1])
    assert capfd.readouterr() == ("", "")


# --- arguments -------------------------------------------------------------------------------------------------------


def test_no_texts(cache: Path) -> None:
    assert embed([]).shape == (0, 384)
    assert embed([]).dtype == np.float32


@pytest.mark.parametrize("blank", ["", "  \n"])
def test_an_empty_text_is_named(blank: str) -> None:
    with pytest.raises(ValueError, match=r"texts\[1\]: got the empty text"):
        embed(["a", blank])


def test_what_is_no_string_is_named() -> None:
    with pytest.raises(TypeError, match=r"texts\[2\]: got int"):
        embeddings._checked(["a", "b", 3])
    with pytest.raises(TypeError, match="got one str, expected a list"):
        embed("one text")


@pytest.mark.parametrize("size", [0, -1])
def test_no_batch_size(size: int) -> None:
    with pytest.raises(ValueError, match="batch_size: got"):
        embed(["a"], batch_size=size)


def test_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ICML26_CACHE", str(tmp_path))
    monkeypatch.setenv("ICML26_OFFLINE", "1")
    monkeypatch.setenv("ICML26_PROFILE", "cpu")
    with pytest.raises(NotFetchedError, match=COMMAND):
        embed(["a"])


def test_a_smoke_run_fetches_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("CACHE", str(tmp_path)), ("OFFLINE", "1"), ("SMOKE", "1"), ("PROFILE", "cpu")):
        monkeypatch.setenv(f"ICML26_{name}", value)
    vectors = embed(["A man", "a man", "another"])
    assert vectors.shape == (3, 384)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(vectors[0], vectors[1], atol=1e-5)  # lower case
    assert np.abs(vectors[0] - vectors[2]).max() > 1e-3
    assert not (tmp_path / "embeddings").exists()


# --- the cache -------------------------------------------------------------------------------------------------------


def test_each_text_is_computed_once(cache: Path, counted: list[list[str]]) -> None:
    first = embed(["a", "b", "a", "a"])
    np.testing.assert_array_equal(first[[0, 0]], first[[2, 3]])
    assert counted == [["a", "b"]]
    second = embed(["c", "b", "a"])
    assert counted[1:] == [["c"]]
    np.testing.assert_array_equal(second[[2, 1]], first[:2])
    embed(["a", "b", "c"])
    assert len(counted) == 2
    embed(["a"], cache=False)
    assert counted[2:] == [["a"]]


def test_a_damaged_entry_is_computed_again(cache: Path, counted: list[list[str]]) -> None:
    whole = embed(["a", "b", "c"])
    (path,) = (cache / "embeddings").glob("*.sqlite")
    with sqlite3.connect(path) as database:
        keys = [hashlib.sha256(text.encode()).digest() for text in ("a", "b")]
        database.execute("UPDATE vectors SET vector = substr(vector, 1, 100) WHERE key = ?", keys[:1])
        database.execute("UPDATE vectors SET vector = zeroblob(1536) WHERE key = ?", keys[1:])
    np.testing.assert_allclose(embed(["a", "b", "c"]), whole, atol=2e-6)
    assert counted[1:] == [["a", "b"]]
    embed(["a", "b", "c"])
    assert len(counted) == 2


def test_a_file_that_is_no_database_is_thrown_away(cache: Path, counted: list[list[str]]) -> None:
    whole = embed(["a"])
    (path,) = (cache / "embeddings").glob("*.sqlite")
    path.write_bytes(b"not a database at all, but long enough to look at" * 50)
    with pytest.warns(UserWarning, match="damaged.*thrown away"):
        np.testing.assert_allclose(embed(["a"]), whole, atol=2e-6)
    embed(["a"])
    assert len(counted) == 2


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> VectorCache:
    monkeypatch.setenv("ICML26_CACHE", str(tmp_path))
    return VectorCache("three", 3)


def key(i: int) -> bytes:
    return hashlib.sha256(str(i).encode()).digest()


def test_more_keys_than_one_question_holds(store: VectorCache) -> None:
    vectors = {key(i): np.full(3, i, dtype=np.float32) for i in range(1200)}
    assert store.read(vectors) == {}
    store.write(vectors)
    found = store.read([*vectors, key(-1)])
    assert found.keys() == vectors.keys()
    assert all(np.array_equal(found[k], vectors[k]) for k in vectors)


def test_a_vector_of_another_length_is_refused(store: VectorCache) -> None:
    with pytest.raises(ValueError, match=r"got the shape \(4,\), expected \(3,\)"):
        store.write({key(0): np.zeros(3, dtype=np.float32), key(1): np.zeros(4, dtype=np.float32)})
    assert store.read([key(0)]) == {}


@pytest.mark.parametrize(("name", "dimension"), [("../x", 3), ("", 3), ("x", 0)])
def test_no_cache(name: str, dimension: int) -> None:
    with pytest.raises(ValueError, match="name|dimension"):
        VectorCache(name, dimension)


def test_writers_at_once(store: VectorCache) -> None:
    def work(start: int) -> None:
        for i in range(start, 60, 4):
            VectorCache("three", 3).write({key(i): np.full(3, i, dtype=np.float32)})

    threads = [threading.Thread(target=work, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = store.read(map(key, range(60)))
    assert [found[key(i)][0] for i in range(60)] == list(range(60))


KILLED = """
import os, signal, sqlite3, sys
import numpy as np
from icml26.language import vector_cache

class Dying(sqlite3.Connection):
    def executemany(self, sql, rows):
        super().executemany(sql, rows[: len(rows) // 2])
        os.kill(os.getpid(), signal.SIGKILL)

real = sqlite3.connect
vector_cache.sqlite3.connect = lambda *a, **k: real(*a, factory=Dying, **k)
vectors = {i.to_bytes(2, "big"): np.ones(3, dtype=np.float32) for i in range(3000)}
vector_cache.VectorCache("three", 3).write(vectors)
"""


def test_a_killed_writer_leaves_all_or_nothing(store: VectorCache) -> None:
    store.write({key(0): np.zeros(3, dtype=np.float32)})
    path = os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])
    ran = subprocess.run(
        [sys.executable, "-c", KILLED], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    assert ran.returncode == -signal.SIGKILL, ran.stderr
    assert store.read(i.to_bytes(2, "big") for i in range(3000)) == {}
    assert list(store.read([key(0)])) == [key(0)]
    store.write({key(1): np.ones(3, dtype=np.float32)})
    assert len(store.read([key(0), key(1)])) == 2


def test_where_sqlite_cannot_work_it_warns_and_goes_on(store: VectorCache) -> None:
    store.path.parent.mkdir()
    store.path.mkdir()  # no file can be there
    with pytest.warns(UserWarning, match="not kept"):
        store.write({key(0): np.zeros(3, dtype=np.float32)})
    with pytest.warns(UserWarning, match="not kept"):
        assert store.read([key(0)]) == {}


def test_half_a_surrogate_pair_is_named() -> None:
    with pytest.raises(ValueError, match=r"texts\[1\]: got the lone surrogate '\\ud800' at 1"):
        embed(["a", "b\ud800"])
