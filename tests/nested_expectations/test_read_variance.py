"""READ's true variance against enumeration, sampling, and its own telescoping."""

import itertools
import math

import numpy as np
import pytest

from icml26.nested_expectations.classical import read
from icml26.nested_expectations.problems import LatticeBermudan, TreeRNE, TwoStageTrial
from icml26.nested_expectations.read_variance import read_variance


def one_node(floor=0.4):
    return TreeRNE(
        [([[0]], [[1.0]]), ([[0, 1, 2]], [[0.5, 0.2, 0.3]])],
        [0.0, 0.5, 1.0],
        links=[lambda node, m: np.maximum(floor, m)],
    )


def test_levels_against_enumeration_of_all_children():
    values, law, floor = [0.0, 0.5, 1.0], [0.5, 0.2, 0.3], 0.4
    result = read_variance(one_node(floor), levels=8)
    assert result.exact_levels == 8

    def g(m):
        return max(floor, m)

    for n in (1, 2, 3):
        half, total = 2 ** (n - 1), 0.0
        for outcome in itertools.product(range(3), repeat=2**n):
            x = [values[i] for i in outcome]
            one, two = sum(x[:half]) / half, sum(x[half:]) / half
            delta = g((one + two) / 2) - (g(one) + g(two)) / 2
            total += math.prod(law[i] for i in outcome) * delta**2
        assert result.second_moment[n] == pytest.approx(total, abs=1e-14)


@pytest.mark.parametrize(
    "problem", [LatticeBermudan(dates=2), LatticeBermudan(dates=2, volatility=0.2), TwoStageTrial(qubits=2)]
)
def test_levels_telescope_to_the_exact_value(problem):
    # E g(first child) plus all E Delta_n is gamma_0; the normal halves are good to four digits.
    assert read_variance(problem, atoms=10_000).mean == pytest.approx(problem.exact()[0][0], rel=1e-4)


def test_agrees_with_sampling_where_nothing_is_heavy():
    # Exercise and continuation far apart: deep levels die out, the sample variance can be trusted.
    tree = one_node(0.1)
    true = read_variance(tree).variance
    values = read(tree, 400_000, np.random.default_rng(0)).values
    fourth = ((values - values.mean()) ** 4).mean()
    error = math.sqrt((fourth - values.var() ** 2) / values.size)
    assert values.var() == pytest.approx(true, abs=5 * error)


def test_known_cost_times_variance_of_the_lattice():
    problem = LatticeBermudan(dates=2)
    result = read_variance(problem, atoms=10_000)
    assert 4.0 * result.variance / problem.scale**2 == pytest.approx(0.860, abs=1e-3)
    # Deep levels carry it: the terms E Delta_n^2 / p_n still grow at n = 12.
    terms = result.second_moment[1:] / (0.6 * 0.4 ** np.arange(1, result.second_moment.size))
    assert terms[12] > 3 * terms[1]
    sampled = read(problem, 100_000, np.random.default_rng(1)).values.var()
    assert sampled < result.variance


def test_the_number_of_atoms_hardly_matters():
    problem = LatticeBermudan(dates=2)
    few, many = read_variance(problem, atoms=500), read_variance(problem, atoms=20_000)
    assert few.exact_levels < many.exact_levels
    assert few.variance == pytest.approx(many.variance, rel=0.01)


def test_refusals():
    with pytest.raises(ValueError, match="depth 2"):
        read_variance(LatticeBermudan(dates=3))
    with pytest.raises(ValueError, match="levels"):
        read_variance(LatticeBermudan(), levels=0)
    with pytest.raises(ValueError, match="r must be in"):
        read_variance(LatticeBermudan(), r=0.4)


@pytest.mark.parametrize("levels", [20, 60, 900])
def test_a_mean_on_the_kink_has_infinite_variance(levels):
    # E Delta_n^2 falls like 2^-n there, P(level n) like (1 - r)^n with 1 - r < 1/2.
    fair = TreeRNE(
        [([[0]], [[1.0]]), ([[0, 1]], [[0.5, 0.5]])], [0.0, 1.0], links=[lambda node, m: np.maximum(0.5, m)]
    )
    assert read_variance(fair, 0.51, levels=levels).variance == math.inf


@pytest.mark.parametrize("problem", [LatticeBermudan(), TwoStageTrial()])
def test_the_variance_is_finite_where_no_mean_is_on_its_kink(problem):
    assert all(0.0 < read_variance(problem, r, atoms=1000).variance < math.inf for r in (0.52, 0.6))


def test_sizes_of_the_series_are_checked():
    with pytest.raises(ValueError, match="levels"):
        read_variance(LatticeBermudan(), levels=2000)
    with pytest.raises(ValueError, match="atoms"):
        read_variance(LatticeBermudan(), atoms=0)
    assert math.isfinite(read_variance(LatticeBermudan(), atoms=1).variance)
