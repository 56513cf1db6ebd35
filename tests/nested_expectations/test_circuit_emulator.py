"""The circuits against the emulator: the same law and the same bill, reached by state vector and by FFT."""

import numpy as np
import pytest

from icml26.nested_expectations.coherent import NestedCircuit, direct, schedule
from icml26.nested_expectations.emulator import NestedQAE
from icml26.nested_expectations.problems import LatticeBermudan, TwoStageTrial

PROBLEMS = {"put": LatticeBermudan(dates=2, qubits=1), "trial": TwoStageTrial(qubits=1)}


def on_register(values, probs, bits):
    """Masses on 0, 2^-b … 1 after saturating; each value divided between its two neighbours."""
    place = np.clip(values, 0.0, 1.0) * 2**bits
    left = np.minimum(np.floor(place).astype(int), 2**bits - 1)
    law = np.zeros(2**bits + 1)
    np.add.at(law, left, probs * (left + 1 - place))
    np.add.at(law, left + 1, probs * (place - left))
    return law


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("window", ["cosine", "flat"])
def test_derandomised_estimate(name, window):
    """Level 1 of two dates: both terms run as circuits (9 and 13 qubits), their sum is the emulator's law."""
    problem, M0, bits = PROBLEMS[name], 4, 12
    circuits = [NestedCircuit(problem, term, window) for term in schedule(2, 1, M0).terms]
    assert [circuit.qubits for circuit in circuits] == [9, 13]
    (base, p0), (shift, p1) = (circuit.law() for circuit in circuits)
    total = on_register(np.add.outer(base, shift).ravel(), np.multiply.outer(p0, p1).ravel(), bits)
    emulator = NestedQAE(problem, M0=M0, c=0.5, window=window, grid_bits=bits)
    values, probs = emulator.law(1)
    assert np.allclose(values, problem.scale * np.arange(2**bits + 1) / 2**bits)
    assert np.max(np.abs(probs - total)) < 1e-10
    assert emulator.cost(1) == sum(circuit.queries() for circuit in circuits)


@pytest.mark.parametrize("name", PROBLEMS)
def test_direct_nesting(name):
    problem, M0, bits = PROBLEMS[name], 8, 12
    circuit = NestedCircuit(problem, direct(M0, M0))
    emulator = NestedQAE(problem, M0=M0, window="cosine", grid_bits=bits, telescoping=False)
    values, probs = circuit.law()
    assert np.max(np.abs(emulator.law(0)[1] - on_register(values, probs, bits))) < 1e-10
    assert emulator.cost(0) == circuit.queries()


@pytest.mark.parametrize(("depth", "level", "M0"), [(1, 3, 4), (2, 4, 16), (3, 2, 4), (4, 2, 2)])
def test_the_schedule_costs_what_the_emulator_says(depth, level, M0):
    problem = LatticeBermudan(dates=depth, qubits=1)
    assert schedule(depth, level, M0).queries == NestedQAE(problem, M0=M0).cost(level)
