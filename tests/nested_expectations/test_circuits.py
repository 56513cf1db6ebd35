"""Amplitude estimation circuits against the formula, PennyLane's own routines and plain matrices."""

import numpy as np
import pennylane as qml
import pytest
from pennylane.tape import QuantumScript

from icml26.nested_expectations.circuits import (
    CircuitOracle,
    Preparation,
    Sampler,
    amplitude_estimation,
    count_queries,
    fold,
    grover,
    mean_preparation,
    phase_tape,
    power_tape,
    run_probs,
    table_rotation,
)
from icml26.nested_expectations.qae import canonical, cosine, iqae, mlae, outcome_law


def problem(seed, q=2):
    """A random law on 2^q outcomes, a payoff in [0, 1] and its exact mean."""
    rng = np.random.default_rng(seed)
    probs, payoff = rng.dirichlet(np.ones(2**q)), rng.random(2**q)
    return mean_preparation(probs, payoff), probs, payoff, float(probs @ payoff)


def matrix(ops, wires):
    return qml.matrix(QuantumScript(ops), wire_order=wires)


@pytest.mark.parametrize("window", ["flat", "cosine"])
@pytest.mark.parametrize("M", [2, 4, 8, 16])
def test_circuit_law_is_the_formula(M, window):
    A, _, _, a = problem(M)
    assert np.max(np.abs(fold(run_probs(phase_tape(A, M, window))) - outcome_law(a, M, window)[1])) < 1e-10


def test_both_simulators_agree():
    A, _, _, a = problem(5, q=1)
    law = outcome_law(a, 8, "cosine")[1]
    assert np.max(np.abs(fold(run_probs(phase_tape(A, 8, "cosine"), "default.qubit")) - law)) < 1e-10


@pytest.mark.parametrize("M", [2, 4, 8, 16])
def test_one_estimation_costs_2M_minus_1(M):
    A = problem(0)[0]
    assert count_queries(phase_tape(A, M, "cosine")) == 2 * M - 1
    assert count_queries(power_tape(A, M)) == 2 * M + 1


def test_count_sees_samplers_wherever_they_hide():
    sampler = Sampler(np.array([[0.25, 0.75]]), (), (0,))
    hidden = [
        qml.adjoint(sampler),
        qml.ctrl(sampler, control=5),
        qml.ctrl(qml.adjoint(sampler), control=[5, 6]),
        qml.adjoint(qml.adjoint(sampler)),
        qml.prod(sampler, qml.X(4)),
        qml.pow(sampler, 3, lazy=True),
        qml.ControlledSequence(sampler, control=[5, 6, 7]),  # 1 + 2 + 4
    ]
    assert [count_queries(QuantumScript([op])) for op in hidden] == [1, 1, 1, 1, 1, 3, 7]
    assert count_queries(QuantumScript(hidden)) == 15
    assert count_queries(QuantumScript([sampler, qml.X(0), sampler])) == 2
    assert count_queries(QuantumScript([qml.QFT(range(3)), qml.RY(0.1, 0)])) == 0


def test_count_refuses_to_guess():
    sampler = Sampler(np.array([[0.25, 0.75]]), (), (0,))
    with pytest.raises(ValueError, match="no decomposition"):
        count_queries(QuantumScript([qml.sum(sampler, qml.X(0))]))
    with pytest.raises(ValueError, match="fractional"):
        count_queries(QuantumScript([qml.pow(sampler, 0.5, lazy=True)]))


def test_sampler_loads_each_conditional_law():
    rng = np.random.default_rng(2)
    table = rng.dirichlet(np.ones(4), size=4)
    table[1] = [0, 0, 0.5, 0.5]  # a branch that no child reaches
    U = matrix([Sampler(table, (0, 1), (2, 3))], range(4))
    for x in range(4):
        column = U[:, 4 * x]  # |x⟩|00⟩
        assert np.allclose(column[4 * x : 4 * x + 4], np.sqrt(table[x]), atol=1e-12)
        assert np.linalg.norm(column) == pytest.approx(1)


def test_table_rotation_reads_its_controls_big_endian():
    probs = np.array([0.0, 0.2, 0.7, 1.0, 0.5, 0.1, 0.9, 0.3])
    U = matrix(table_rotation(probs, (2, 0, 1), 3), [2, 0, 1, 3])
    assert np.allclose([abs(U[2 * i + 1, 2 * i]) ** 2 for i in range(8)], probs, atol=1e-12)


def test_grover_has_the_phases_of_the_amplitude():
    """Eigenphases ±2θ on the plane spanned by A|0⟩; without the sign they would be π ± 2θ."""
    A, _, _, a = problem(3, q=1)
    Q = matrix(grover(A), A.wires)
    start = matrix(list(A.ops), A.wires)[:, 0]
    plane = np.linalg.qr(np.stack([start, Q @ start], axis=1))[0]
    phases = np.sort(np.angle(np.linalg.eigvals(plane.conj().T @ Q @ plane)))
    theta = np.arcsin(np.sqrt(a))
    assert np.allclose(phases, [-2 * theta, 2 * theta], atol=1e-12)


def test_controlling_the_reflections_and_the_sign_controls_all_of_Q():
    A = problem(4, q=1)[0]
    control = 9
    ours = matrix(grover(A, control=control), [control, *A.wires])
    whole = matrix([qml.ctrl(op, control=control) for op in grover(A)], [control, *A.wires])
    assert np.allclose(ours, whole, atol=1e-12)


def test_pennylane_phase_estimation_agrees():
    """qml.QuantumPhaseEstimation on the dense Q, five qubits, is the same circuit with a flat window."""
    A, _, _, _ = problem(6, q=1)
    phase = [2, 3, 4]
    Q = matrix(grover(A), A.wires)
    ops = [*A.ops, qml.QuantumPhaseEstimation(Q, target_wires=A.wires, estimation_wires=phase)]
    theirs = run_probs(QuantumScript(ops, [qml.probs(wires=phase)]), "default.qubit")
    ours = run_probs(QuantumScript(amplitude_estimation(A, phase), [qml.probs(wires=phase)]))
    assert np.max(np.abs(theirs - ours)) < 1e-10


def test_pennylane_quantum_monte_carlo_agrees():
    """qml.QuantumMonteCarlo (dense matrices, our test oracle only) on six qubits.

    Its operator has eigenphases ±4θ (mean = sin²(πj/2M) in its documentation): it is our Q squared, so its
    law is that of the amplitude sin²(2θ).
    """
    _, probs, payoff, a = problem(7)
    target, phase = [0, 1, 2], [3, 4, 5]
    oracle = qml.QuantumMonteCarlo(probs, lambda i: payoff[i], target_wires=target, estimation_wires=phase)
    theirs = run_probs(QuantumScript([oracle], [qml.probs(wires=phase)]), "default.qubit")
    squared = np.sin(2 * np.arcsin(np.sqrt(a))) ** 2
    assert np.max(np.abs(fold(theirs) - outcome_law(squared, 8)[1])) < 1e-10


def test_estimators_run_on_circuits_and_pay_what_the_tapes_hold():
    A, _, _, a = problem(8)
    for estimator in (
        lambda oracle: canonical(oracle, 16, repeats=3),
        lambda oracle: cosine(oracle, 32),
        lambda oracle: mlae(oracle, [0, 1, 2, 4], shots=200),
        lambda oracle: iqae(oracle, 0.01),
    ):
        oracle = CircuitOracle(A, seed=4)
        found = estimator(oracle)
        assert found.queries == oracle.queries
        assert found.interval[0] <= a <= found.interval[1]


@pytest.mark.parametrize("power", [0, 1, 3])
def test_grover_powers_turn_the_flag(power):
    A, _, _, a = problem(9)
    expected = np.sin((2 * power + 1) * np.arcsin(np.sqrt(a))) ** 2
    assert run_probs(power_tape(A, power))[1] == pytest.approx(expected, abs=1e-12)


def test_counts_are_reproducible():
    A = problem(10)[0]
    assert CircuitOracle(A, 1).flag_counts(1, 50) == CircuitOracle(A, 1).flag_counts(1, 50)


BAD = [
    (lambda: mean_preparation(np.full(3, 1 / 3), np.zeros(3)), "power of two"),
    (lambda: mean_preparation(np.array([0.5, 0.6]), np.zeros(2)), "sum to 1"),
    (lambda: mean_preparation(np.array([0.5, 0.5]), np.array([0.0, 1.1])), "probs must lie"),
    (lambda: mean_preparation(np.array([0.5, 0.5]), np.array([0.0, np.nan])), "probs must lie"),
    (lambda: Sampler(np.array([[1.5, -0.5]]), (), (0,)), "non-negative"),
    (lambda: Sampler(np.array([[0.5, 0.5]]), (1,), (0,)), "shape"),
    (lambda: table_rotation(np.array([0.5]), (1,), 0), "shape"),
    (lambda: phase_tape(problem(0)[0], 6), "power of two"),
    (lambda: phase_tape(problem(0)[0], 8, "hann"), "window"),
    (lambda: power_tape(problem(0)[0], -1), "power must"),
]


@pytest.mark.parametrize(("call", "message"), BAD)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_reflection_leaves_foreign_wires_alone():
    """A with a parent register as control: Q must be block-diagonal in it, each block with its own angle."""
    table = np.array([[0.9, 0.1], [0.2, 0.8]])
    payoff = np.array([0.1, 0.6, 0.3, 0.95])
    ops = [Sampler(table, (0,), (1,)), *table_rotation(payoff, (0, 1), 2)]
    A = Preparation(tuple(ops), (1, 2), 2)
    Q = matrix(grover(A), [0, 1, 2])
    assert np.allclose(Q[:4, 4:], 0, atol=1e-12)
    for x in range(2):
        a = float(table[x] @ payoff[2 * x : 2 * x + 2])
        phases = np.angle(np.linalg.eigvals(Q[4 * x : 4 * x + 4, 4 * x : 4 * x + 4]))
        assert np.min(np.abs(phases - 2 * np.arcsin(np.sqrt(a)))) < 1e-10


def test_folding_needs_an_even_number_of_outcomes():
    with pytest.raises(ValueError, match="even"):
        fold(np.full(5, 0.2))
