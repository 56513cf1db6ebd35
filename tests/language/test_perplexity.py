"""Perplexity of models whose perplexity is known, and the paired comparison's honesty."""

import math
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from icml26.language.perplexity import Perplexity, compare, perplexity


class Table(torch.nn.Module):
    """A bigram model: the next token's logits are a row of a table. It records how many logits it makes at once."""

    def __init__(self, logits, positions=512):
        super().__init__()
        self.table = torch.nn.Parameter(logits)
        self.config = SimpleNamespace(max_position_embeddings=positions, vocab_size=len(logits))

    def forward(self, input_ids, **_):
        return SimpleNamespace(logits=self.table[input_ids])


@pytest.fixture(scope="module")
def llama():
    transformers = pytest.importorskip("transformers", reason="pip install 'icml26[language]'")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=301,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=600,
        initializer_range=0.3,
    )
    return transformers.LlamaForCausalLM(config).eval()


def chain(p=0.2, n=6, length=4000, seed=0):
    """A two-state Markov chain that changes its state with probability p, and the model that knows it."""
    rng = np.random.default_rng(seed)
    flips = rng.random((n, length)) < p
    blocks = torch.from_numpy(np.cumsum(flips, axis=1) % 2)
    return Table(torch.tensor([[1 - p, p], [p, 1 - p]]).log(), length), blocks, flips[:, 1:].mean()


def test_uniform_model_has_the_size_of_its_vocabulary():
    blocks = torch.arange(600).reshape(3, 200) % 1000
    result = perplexity(Table(torch.zeros(1000, 1000)), blocks)
    assert result.ppl == pytest.approx(1000, rel=1e-6)
    assert result.tokens.tolist() == [199] * 3
    np.testing.assert_allclose(result.nll, np.log(1000), rtol=1e-6)
    assert result.bits_per_byte is None


def test_markov_chain_reaches_its_entropy():
    p = 0.2
    model, blocks, share = chain(p)
    result = perplexity(model, blocks, batch_size=2)
    # Exactly the cross-entropy of the changes that happened; near the entropy rate of the chain.
    assert result.mean_nll == pytest.approx(-(share * np.log(p) + (1 - share) * np.log(1 - p)), rel=1e-6)
    assert result.mean_nll == pytest.approx(-(p * np.log(p) + (1 - p) * np.log(1 - p)), rel=0.02)
    assert result.ppl == pytest.approx(np.exp(result.mean_nll))


@pytest.mark.parametrize("batch_size", [1, 2, 5])
def test_equals_the_loss_of_transformers(llama, batch_size):
    blocks = torch.randint(0, 301, (5, 580), generator=torch.Generator().manual_seed(3))
    result = perplexity(llama, blocks, batch_size)
    with torch.no_grad():
        for row, nll in zip(blocks, result.nll, strict=True):
            assert nll == pytest.approx(float(llama(input_ids=row[None], labels=row[None]).loss), rel=1e-5)


def test_models_without_a_plain_head_give_the_same(llama):
    """A wrapper whose output layer is not known to be all there is after the hidden states."""
    blocks = torch.randint(0, 301, (3, 40), generator=torch.Generator().manual_seed(3))

    class Wrapped(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = llama

        def forward(self, input_ids):
            return self.inner(input_ids=input_ids)

    np.testing.assert_allclose(perplexity(Wrapped(), blocks).nll, perplexity(llama, blocks).nll, rtol=1e-5)


def test_capped_logits_are_not_bypassed(llama):
    """Gemma-like models change the logits after the output layer: taking the layer's own would be wrong."""
    blocks = torch.randint(0, 301, (2, 40), generator=torch.Generator().manual_seed(3))
    plain = perplexity(llama, blocks).nll
    forward = type(llama).forward

    class Capped(type(llama)):
        def forward(self, **arguments):
            out = forward(self, **arguments)
            out.logits = torch.tanh(out.logits)
            return out

    capped = Capped(llama.config).eval()
    capped.load_state_dict(llama.state_dict())
    capped.config.final_logit_softcapping = 1.0
    try:
        result = perplexity(capped, blocks)
        with torch.no_grad():
            logits = torch.tanh(llama(input_ids=blocks[:1]).logits[0, :-1])
        expected = torch.nn.functional.cross_entropy(logits, blocks[0, 1:])
        assert result.nll[0] == pytest.approx(float(expected), rel=1e-5)
        assert abs(result.nll[0] - plain[0]) > 0.1
    finally:
        del capped.config.final_logit_softcapping


def test_logits_of_a_few_positions_exist_at_a_time(llama):
    seen = []
    handle = llama.lm_head.register_forward_hook(lambda _m, _i, out: seen.append(out.shape[0] * out.shape[1]))
    try:
        perplexity(llama, torch.zeros(4, 600, dtype=torch.int64), batch_size=2)
    finally:
        handle.remove()
    assert max(seen) <= 256
    assert sum(seen) == 4 * 599


def test_windows_score_each_token_once():
    """A bigram model needs one token of context, so overlapping windows must give what one long pass gives."""
    model, blocks, _ = chain(n=1, length=101)
    whole = perplexity(model, blocks)
    windows = blocks[0].unfold(0, 21, 10)  # 9 windows of 21 tokens that advance by 10
    for batch_size in (1, 2, 9):
        result = perplexity(model, windows, batch_size, stride=10)
        assert result.tokens.tolist() == [20, *[10] * 8]
        assert result.mean_nll == pytest.approx(whole.mean_nll, rel=1e-6)
        assert result.ppl == pytest.approx(whole.ppl, rel=1e-6)


def test_bits_per_byte_is_what_an_arithmetic_coder_would_need():
    result = perplexity(Table(torch.zeros(256, 256)), torch.zeros(1, 101, dtype=torch.int64), n_bytes=100)
    assert result.bits_per_byte == pytest.approx(8, rel=1e-6)


def test_impossible_token_makes_it_infinite():
    table = torch.zeros(4, 4)
    table[:, 3] = -torch.inf
    blocks = torch.tensor([[0, 1, 2, 0], [0, 1, 3, 0]])
    result = perplexity(Table(table), blocks)
    assert result.ppl == np.inf
    assert not result.finite
    assert np.isfinite(result.nll[0])
    with pytest.raises(ValueError, match="infinite nll"):
        compare(result, result)


def test_nan_names_the_block():
    table = torch.zeros(4, 4)
    table[3] = torch.nan
    with pytest.raises(FloatingPointError, match="NaN in 1 of 2 blocks, first in block 1"):
        perplexity(Table(table), torch.tensor([[0, 1, 2, 0], [0, 1, 3, 0]]))


def test_model_is_left_as_it_was(llama):
    llama.train()
    perplexity(llama, torch.zeros(1, 8, dtype=torch.int64))
    assert all(module.training for module in llama.modules())
    llama.eval()


@pytest.mark.parametrize(
    ("blocks", "options", "message"),
    [
        (torch.zeros(0, 8), {}, "blocks: got shape 0 x 8"),
        (torch.zeros(2, 1), {}, "blocks: got shape 2 x 1"),
        (torch.zeros(1, 513), {}, "got 513 tokens per block, the model has 512 positions"),
        (torch.full((1, 8), 4), {}, "got token ids 4 to 4, expected 0 to 3"),
        (torch.full((1, 8), -1), {}, "got token ids -1 to -1"),
        (torch.zeros(1, 8), {"batch_size": 0}, "batch_size: got 0"),
        (torch.zeros(1, 8), {"stride": 8}, "stride: got 8, expected 1 to 7"),
        (torch.zeros(1, 8), {"stride": 0}, "stride: got 0"),
        (torch.zeros(1, 8), {"n_bytes": 0}, "n_bytes: got 0"),
    ],
)
def test_bad_input_is_named(blocks, options, message):
    with pytest.raises(ValueError, match=message):
        perplexity(Table(torch.zeros(4, 4)), blocks.long(), **options)


# --- comparison -------------------------------------------------------------------------------------------------------


def made(nll, tokens=None):
    nll = np.asarray(nll, dtype=np.float64)
    tokens = np.full(len(nll), 100) if tokens is None else np.asarray(tokens)
    return Perplexity(nll, tokens, float(np.exp(np.average(nll, weights=tokens))))


def test_ratio_is_the_ratio_of_the_perplexities():
    a, b = made([1.0, 2.0, 3.0], [10, 20, 30]), made([1.5, 1.5, 2.5], [10, 20, 30])
    result = compare(a, b)
    assert result.ratio == pytest.approx(a.ppl / b.ppl)
    assert result.interval[0] < result.ratio < result.interval[1]
    assert compare(a, b) == result
    many = made(np.random.default_rng(0).normal(3, 1, 50))
    assert compare(many, made(np.zeros(50)), seed=1).interval != compare(many, made(np.zeros(50)), seed=2).interval


def test_constant_difference_has_no_uncertainty():
    """However different the blocks are: pairing removes their difficulty."""
    nll = np.random.default_rng(0).normal(3, 1, 20)
    result = compare(made(nll + 0.1), made(nll))
    np.testing.assert_allclose([result.ratio, *result.interval], np.exp(0.1))


def test_interval_covers_the_truth():
    """95 % of intervals should; the percentile bootstrap of 40 blocks is a little short of it."""
    rng = np.random.default_rng(5)
    covered = 0
    for seed in range(300):
        base = rng.normal(3, 0.5, 40)
        low, high = compare(made(base + rng.normal(0.05, 0.1, 40)), made(base), seed=seed, resamples=400).interval
        covered += low <= np.exp(0.05) <= high
    assert 0.89 <= covered / 300 <= 0.98


def test_other_blocks_cannot_be_compared():
    with pytest.raises(ValueError, match="got 3 and 2 blocks"):
        compare(made([1, 2, 3]), made([1, 2]))
    with pytest.raises(ValueError, match="expected the same blocks"):
        compare(made([1, 2], [10, 10]), made([1, 2], [10, 11]))
    with pytest.raises(ValueError, match="resamples, level: got 0"):
        compare(made([1, 2]), made([1, 2]), resamples=0)


WRONG = """
import torch
from transformers import LlamaConfig, LlamaForCausalLM
from icml26.language.perplexity import perplexity
model = LlamaForCausalLM(LlamaConfig(vocab_size=9, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
                                     num_attention_heads=1))
for blocks in (torch.arange(5), torch.ones(2, 5), [[1, 2]]):
    try:
        perplexity(model, blocks)
    except (ValueError, TypeError) as error:
        print(type(error).__name__, error)
"""


def test_what_are_no_blocks_is_named():
    """In a process of its own, where no hook of the tests checks shapes first."""
    ran = subprocess.run([sys.executable, "-c", WRONG], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == [
        "ValueError blocks: got shape (5,), expected n x length (x[None] makes one block)",
        "TypeError blocks: got torch.float32, expected a tensor of integers, the token ids",
        "TypeError blocks: got list, expected a tensor of integers, the token ids",
    ]


def test_one_block_has_no_interval():
    one = Perplexity(np.array([2.0]), np.array([7]), math.exp(2))
    other = Perplexity(np.array([1.0]), np.array([7]), math.exp(1))
    found = compare(one, other)
    assert found.ratio == pytest.approx(math.e)
    assert np.isnan(found.interval).all()
