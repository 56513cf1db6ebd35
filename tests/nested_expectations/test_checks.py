"""The finite checks measure what they say, and would see a fault."""

import numpy as np
import pytest

from icml26.nested_expectations import checks
from icml26.nested_expectations.coherent import NestedCircuit, correction, direct, schedule
from icml26.nested_expectations.problems import LatticeBermudan
from icml26.nested_expectations.qae import outcome_law


def test_the_chain_telescopes_and_a_wrong_window_would_show():
    assert checks.telescoping_gap(grid_bits=8, level=3) < 1e-12


@pytest.mark.parametrize("states", [4, 8, 32, 256])
def test_smallest_phase_error_has_its_closed_form(states):
    least, cosine = checks.smallest_phase_error(states)
    assert least == pytest.approx(2 * np.sin(np.pi / (2 * (states + 1))), rel=1e-9)
    # The cosine window is the same problem with one state fewer: w_0 = 0.
    assert cosine == pytest.approx(2 * np.sin(np.pi / (2 * states)), rel=1e-9)


def test_random_windows_do_no_better():
    rng = np.random.default_rng(0)
    least, _ = checks.smallest_phase_error(16)
    for _ in range(200):
        w = rng.normal(size=16)
        w /= np.linalg.norm(w)
        assert 2 - 2 * (w[:-1] @ w[1:]) >= least**2 - 1e-12


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_constant_stays_what_it_is(depth):
    for method, answer in checks.constant_answers(depth).items():
        assert answer == pytest.approx(1.0, abs=1e-12), method


def test_without_the_base_term_the_put_is_worth_nearly_nothing():
    problem = LatticeBermudan()
    whole, bare = checks.corrections_only(problem)
    assert whole * problem.scale == pytest.approx(float(problem.exact()[0][0]), abs=0.1)
    assert abs(bare) < 0.3 * whole


def test_one_circuit_agrees_with_the_emulator():
    row = checks.circuit_row(checks.Case(outer=4, M0=2, p=1))
    assert row["law_difference"] < 1e-10
    assert row["queries_on_tape"] == row["queries_by_model"] == 7 * (1 + 3 + 7)


@pytest.mark.parametrize("term", [direct(8, 4), correction(1, 8, 4), correction(2, 4, 2), schedule(3, 1, 2).terms[0]])
def test_the_qubits_of_a_term_are_those_of_its_circuit(term):
    depth = 3 if len(term.chain) and term.chain[0].terms[0].chain else 2
    circuit = NestedCircuit(LatticeBermudan(dates=depth, qubits=1), term, "flat")
    assert term.qubits(1) == circuit.qubits


def test_misses_get_rare_with_states_and_with_runs():
    single = [checks.chance_of_a_miss(M) for M in (16, 64, 256)]
    assert single[0] > 10 * single[1] > 100 * single[2] > 0
    medians = [checks.chance_of_a_miss(16, runs) for runs in (1, 3, 5)]
    assert medians[0] > 10 * medians[1] > 100 * medians[2] > 0


@pytest.mark.parametrize("p", [0, 1, 3])
def test_the_telescoping_gap_sees_a_wrong_mean(monkeypatch, p):
    right = checks.NestedQAE.chain_means

    def wrong(self, date, level):
        means = right(self, date, level).copy()
        means[p] += 1e-3
        return means

    monkeypatch.setattr(checks.NestedQAE, "chain_means", wrong)
    assert checks.telescoping_gap(grid_bits=8, level=3) == pytest.approx(1e-3, rel=1e-6)


def test_the_chance_of_a_miss_is_that_of_the_worst_amplitude():
    chances = []
    for k in (0, 13, 31, 50):
        values, probs = outcome_law((k + 0.5) / 64, 8, "cosine")
        chances.append(probs[np.abs(values - (k + 0.5) / 64) > 0.25].sum())
    assert min(chances) < 0.9 * max(chances)
    assert checks.chance_of_a_miss(8) >= max(chances)
