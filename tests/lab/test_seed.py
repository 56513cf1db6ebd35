"""Seeds: the same numbers again, from every source, and independent streams."""

import random

import numpy as np
import pytest
import torch

from icml26.lab import seed


def _draws(generator):
    return (random.random(), np.random.random(), torch.rand(3).tolist(), generator.random(3).tolist())  # noqa: NPY002


def test_all_sources_repeat_and_depend_on_the_seed():
    first, again, other = (_draws(seed.seed_all(s)) for s in (7, 7, 8))
    assert first == again
    assert all(a != b for a, b in zip(first, other, strict=True))


def test_torch_is_deterministic_on_a_cpu():
    seed.seed_all(0)
    assert torch.cuda.is_available() or torch.are_deterministic_algorithms_enabled()


def test_spawned_streams_differ_and_the_first_do_not_depend_on_how_many():
    three, five = seed.spawn(1, 3), seed.spawn(1, 5)
    draws = [g.random(1000) for g in three]
    np.testing.assert_array_equal(draws, [g.random(1000) for g in five[:3]])
    correlations = np.corrcoef(draws)[np.triu_indices(3, 1)]
    assert np.abs(correlations).max() < 4 / np.sqrt(1000)


@pytest.mark.parametrize("bad", [-1, 2**32])
def test_range(bad):
    for call in (seed.seed_all, lambda s: seed.spawn(s, 2)):
        with pytest.raises(ValueError, match=r"seed must be in \[0, 2\*\*32\)"):
            call(bad)


@pytest.mark.parametrize("bad", [True, 1.0, "1", None])
def test_type(bad):
    with pytest.raises(TypeError):
        seed.seed_all(bad)


def test_spawn_needs_a_count():
    with pytest.raises(ValueError, match="n must be at least 1, got 0"):
        seed.spawn(1, 0)


def test_numpy_integers_are_seeds():
    assert seed.seed_all(int(np.int64(3))).random() == np.random.default_rng(3).random()
