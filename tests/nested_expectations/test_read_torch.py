"""The accelerator twin of READ has the law of the CPU version."""

import numpy as np
import pytest
import torch

from icml26.nested_expectations.classical import read
from icml26.nested_expectations.problems import LatticeBermudan, TreeRNE, TwoStageTrial
from icml26.nested_expectations.read_torch import read_on_device

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.mark.parametrize(
    "problem", [LatticeBermudan(dates=3), LatticeBermudan(dates=1), TwoStageTrial(qubits=3)]
)
def test_unbiased(problem):
    draws = read_on_device(problem, 100_000, 3, DEVICE)
    assert abs(draws.mean - problem.exact()[0][0]) < 4 * draws.standard_error
    assert draws.costs.dtype == np.int64


def test_costs_have_the_law_of_the_cpu_version():
    p = LatticeBermudan(dates=3)
    one = read_on_device(p, 60_000, 5, DEVICE, draws_at_once=50_000).costs
    two = read(p, 60_000, np.random.default_rng(6)).costs
    for cost in (3, 6, 12, 48, 200):
        chance = (two <= cost).mean()
        assert (one <= cost).mean() == pytest.approx(
            chance, abs=5 * np.sqrt(2 * chance * (1 - chance) / 60_000)
        )


def test_a_seed_repeats():
    p = LatticeBermudan(dates=2)
    one, two, other = (read_on_device(p, 1000, seed, DEVICE).values for seed in (1, 1, 2))
    np.testing.assert_allclose(one, two, rtol=1e-12)
    assert not np.allclose(one, other)


def test_refusals():
    p = LatticeBermudan(dates=2)
    with pytest.raises(ValueError, match="no empty batch"):
        read_on_device(p, 0, 0, DEVICE)
    with pytest.raises(ValueError, match="draws_at_once"):
        read_on_device(p, 1, 0, DEVICE, draws_at_once=0)
    with pytest.raises(ValueError, match="r must be in"):
        read_on_device(p, 1, 0, DEVICE, r=0.5)
    smooth = TreeRNE([([[0]], [[1.0]]), ([[0]], [[1.0]])], [0.5], links=[lambda node, m: m**2])
    with pytest.raises(ValueError, match="stopping"):
        read_on_device(smooth, 1, 0, DEVICE)
