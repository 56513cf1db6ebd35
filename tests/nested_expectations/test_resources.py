"""Resource counts against synthesis that was really done and against gates counted by hand."""

import numpy as np
import pennylane as qml
import pytest
from pennylane.ops import rs_decomposition

from icml26.nested_expectations.coherent import NestedCircuit, correction, direct
from icml26.nested_expectations.problems import LatticeBermudan, TwoStageTrial
from icml26.nested_expectations.resources import (
    Tally,
    resources,
    rotation_t,
    sampler_tally,
    step_cost,
    tally,
)


@pytest.mark.parametrize("delta", [1e-2, 1e-3, 1e-4])
def test_formula_matches_gridsynth(delta):
    """T gates of real Ross–Selinger sequences for eight angles: the mean is within 4 of the formula."""
    counts = []
    for angle in np.linspace(0.1, 3.0, 8):
        gates = rs_decomposition(qml.RZ(angle, 0), epsilon=delta)
        counts.append(sum(gate.name in ("T", "Adjoint(T)") for gate in gates))
    assert abs(np.mean(counts) - rotation_t(delta)) < 4


def test_tally_by_hand():
    ops = [
        qml.RY(0.3, 0),
        qml.adjoint(qml.RZ(0.3, 0)),
        qml.RZ(np.pi / 4, 0),  # a T
        qml.PhaseShift(np.pi / 2, 0),  # an S
        qml.T(0),
        qml.CNOT([0, 1]),
        qml.ControlledPhaseShift(0.7, [0, 1]),  # three rotations
        qml.ControlledPhaseShift(np.pi / 2, [0, 1]),  # three T
        qml.ctrl(qml.Z(3), control=[0, 1, 2]),  # two ANDs
    ]
    assert tally(ops) == Tally(rotations=5, t_gates=5, ands=2, ancillas=2)
    assert tally(ops).t_count(2.0**-10) == 5 * 30 + 5 + 8


def test_a_sampler_of_four_outcomes_is_three_rotations():
    """On the lattice all nodes share one law, so controls fall away; in the trial they do not."""
    put = LatticeBermudan(dates=2, qubits=2)
    assert sampler_tally(put, 0) == sampler_tally(put, 1) == Tally(rotations=3)
    trial = TwoStageTrial(qubits=2)
    assert sampler_tally(trial, 0).rotations <= 3
    assert 3 < sampler_tally(trial, 1).rotations <= 4 * 3


def test_cost_of_a_step_times_queries():
    put = LatticeBermudan(dates=2, qubits=2)
    cost = step_cost(put, 75_000_000, budget=1e-3)
    assert cost.delta == pytest.approx(1e-3 / (3 * 75_000_000))
    assert cost.t_per_step == 3 * int(np.ceil(3 * np.log2(1 / cost.delta)))
    assert cost.t_total == cost.t_per_step * 75_000_000


def test_resources_of_a_nested_circuit():
    put = LatticeBermudan(dates=2, qubits=2)
    small = resources(NestedCircuit(put, direct(4, 2)))
    large = resources(NestedCircuit(put, correction(1, 4, 2)))
    assert small.queries == 7 * 4
    assert large.queries == 7 * (1 + 3 + 7)
    assert (small.qubits, large.qubits) == (9, 14)
    assert large.depth > small.depth > small.queries
    for found in (small, large):
        assert found.delta == pytest.approx(1e-3 / found.rotations)
        assert found.t_samplers == found.queries * 3 * rotation_t(found.delta)
        assert found.t_total > found.t_samplers
        assert found.gates["RY"] + found.gates["RZ"] >= 3 * found.queries
        # S₀ of the outer Grover operators: M − 1 of them, each on all of A's wires and one phase qubit.
        widest = max(int(name.split("C(")[0]) for name in found.gates if "C(PauliZ)" in name)
        assert found.ancillas == widest - 1
        assert found.gates[f"{widest}C(PauliZ)"] == 3
        assert len(found.frame()) == 9


BAD = [
    (lambda: rotation_t(0.0), "delta"),
    (lambda: rotation_t(1.0), "delta"),
    (lambda: step_cost(LatticeBermudan(), 0), "queries"),
    (lambda: step_cost(LatticeBermudan(), 5, budget=2.0), "budget"),
    (lambda: resources(NestedCircuit(LatticeBermudan(qubits=1), direct(2, 2)), budget=0.0), "budget"),
    (lambda: tally([qml.Hermitian(np.eye(2), 0)]), "no T count"),
]


@pytest.mark.parametrize(("call", "message"), BAD)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
