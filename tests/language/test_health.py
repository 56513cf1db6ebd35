"""Health: the loss on given blocks, by domain; the usual blocks are prose and code."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from icml26.language.health import health, health_blocks


class Likes(torch.nn.Module):
    """Gives one token probability a half, shares the rest among the others."""

    def __init__(self, token, vocabulary=5):
        super().__init__()
        logits = torch.full((vocabulary,), float(np.log(0.5 / (vocabulary - 1))))
        logits[token] = np.log(0.5)
        self.logits = torch.nn.Parameter(logits)
        self.config = SimpleNamespace(max_position_embeddings=64, vocab_size=vocabulary)

    def forward(self, input_ids, **_):
        return SimpleNamespace(logits=self.logits.expand(*input_ids.shape, -1))


def test_each_domain_has_its_loss():
    blocks = {"wiki": torch.full((3, 9), 2), "code": torch.full((2, 9), 4)}
    found = health(Likes(2), blocks=blocks)
    assert found == {"wiki_nll": pytest.approx(np.log(2), rel=1e-6), "code_nll": pytest.approx(np.log(8), rel=1e-6)}
    assert health(Likes(4), blocks=blocks)["code_nll"] < found["code_nll"]


@pytest.mark.slow
def test_usual_blocks_are_prose_and_code():
    pytest.importorskip("gensim", reason="pip install 'icml26[language]'")
    pytest.importorskip("icml26.language.texts")
    from icml26.language.tokenizer import small_tokenizer

    tok = small_tokenizer()
    blocks = health_blocks(tok, n=3, length=32)
    assert {name: tuple(rows.shape) for name, rows in blocks.items()} == {"wiki": (3, 32), "code": (3, 32)}
    again = health_blocks(tok, n=3, length=32)
    assert all(torch.equal(blocks[name], again[name]) for name in blocks)
    assert health(Likes(2, len(tok)), tok)["wiki_nll"] > 2


def test_nothing_to_measure_is_refused():
    with pytest.raises(ValueError, match="blocks: got None without a tokenizer"):
        health(Likes(2))
    with pytest.raises(ValueError, match="blocks: got no domain"):
        health(Likes(2), blocks={})
