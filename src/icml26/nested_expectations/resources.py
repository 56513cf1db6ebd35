"""What the circuits would cost on a fault-tolerant machine: qubits, depth, gates, T gates.

Three formulas turn the tape into T gates; all else is Clifford and free here.

* A rotation whose angle is no multiple of π/4 is synthesised to accuracy δ (operator norm) with
  3·log₂(1/δ) T gates (Ross and Selinger 2016, arXiv 1403.2975; the O(log log 1/δ) term is dropped, the
  result rounded up). An odd multiple of π/4 is one T, a multiple of π/2 none.
* A Z with n ≥ 2 controls takes n − 1 temporary logical ANDs of 4 T each (Gidney 2018, arXiv 1709.06648);
  their n − 1 ancillas are clean again afterwards and shared.
* A controlled phase is three rotations of half its angle (and two CNOTs).

δ = budget / number of synthesised rotations: errors add at most linearly. Routing, error correction and
factories are left out: these are logical counts, hence lower than any real bill.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import ceil, log2
from typing import Any

import numpy as np
import pandas as pd

from icml26.nested_expectations.circuits import Operator, Sampler, count_queries, expand, qml
from icml26.nested_expectations.coherent import NestedCircuit

__all__ = ["Resources", "Tally", "rotation_t", "sampler_tally", "step_cost", "StepCost", "resources", "tally"]


@dataclass(frozen=True)
class Tally:
    """Non-Clifford content: rotations to synthesise, exact T gates, logical ANDs, most ancillas at once."""

    rotations: int = 0
    t_gates: int = 0
    ands: int = 0
    ancillas: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            self.rotations + other.rotations,
            self.t_gates + other.t_gates,
            self.ands + other.ands,
            max(self.ancillas, other.ancillas),
        )

    def t_count(self, delta: float) -> int:
        """T gates when every rotation is synthesised to accuracy `delta`."""
        return self.rotations * rotation_t(delta) + self.t_gates + 4 * self.ands


def rotation_t(delta: float) -> int:
    """⌈3·log₂(1/δ)⌉ T gates for one rotation (Ross and Selinger 2016, leading term)."""
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie in (0, 1), got {delta}")
    return ceil(3 * log2(1 / delta))


_CLIFFORD = {"CNOT", "CZ", "Hadamard", "PauliX", "PauliY", "PauliZ", "S", "SWAP", "GlobalPhase"}
_ROTATIONS = {"RX", "RY", "RZ", "PhaseShift"}


def _rotation(angle: float) -> Tally:
    turns = angle / (np.pi / 4)
    if abs(turns - round(turns)) > 1e-9:
        return Tally(rotations=1)
    return Tally(t_gates=round(turns) % 2)


def _tally(op: Operator) -> Tally:
    if op.name in _CLIFFORD:
        return Tally()
    if op.name == "T":
        return Tally(t_gates=1)
    if op.name in _ROTATIONS:
        return _rotation(float(op.parameters[0]))
    if op.name == "ControlledPhaseShift":
        half = _rotation(float(op.parameters[0]) / 2)
        return half + half + half
    if isinstance(op, qml.ops.Controlled) and op.base.name == "PauliZ":
        spare = len(op.control_wires) - 1
        return Tally(ands=spare, ancillas=spare)
    if isinstance(op, qml.ops.Adjoint):
        return _tally(op.base)
    if not op.has_decomposition:
        raise ValueError(f"no T count is known for the operator {op.name}")
    return tally(op.decomposition())


def tally(ops: Iterable[Operator]) -> Tally:
    """Adds up the non-Clifford content of a circuit by expanding every operator.

    Raises ValueError for an operator that is neither known nor decomposable.
    """
    known: dict[int, Tally] = {}
    total = Tally()
    kept = list(ops)  # holds the operators, so that no id is used twice
    for op in kept:
        if id(op) not in known:
            known[id(op)] = _tally(op)
        total = total + known[id(op)]
    return total


def sampler_tally(problem: Any, date: int) -> Tally:
    """One U_d as the direct nested circuit loads it: controlled on the path of d·q qubits.

    A law that is the same at every node (the lattice) needs 2^q − 1 rotations, not 2^{dq}(2^q − 1): the
    multiplexer's other angles are zero.
    """
    nodes = np.zeros(1, dtype=np.int64)
    for past in range(date):
        nodes = problem.children(past, nodes)[0].reshape(-1)
    law = problem.children(date, nodes)[1]
    split = date * problem.qubits
    return tally([Sampler(law, range(split), range(split, split + problem.qubits))])


@dataclass(frozen=True)
class StepCost:
    """T gates of one sampler and of all its applications, each rotation to accuracy `delta`."""

    rotations: int
    delta: float
    t_per_step: int
    t_total: int


def step_cost(problem: Any, queries: int, budget: float = 1e-3, date: int | None = None) -> StepCost:
    """T count per U_d times a query count; `budget` is the error all sampler rotations may add up to.

    date: whose sampler (default: the last, which the innermost and so most queries use).
    """
    if queries < 1:
        raise ValueError(f"queries must be at least 1, got {queries}")
    if not 0 < budget < 1:
        raise ValueError(f"budget must lie in (0, 1), got {budget}")
    step = sampler_tally(problem, problem.depth - 1 if date is None else date)
    delta = budget / max(queries * step.rotations, 1)
    per_step = step.t_count(delta)
    return StepCost(step.rotations, delta, per_step, per_step * queries)


@dataclass(frozen=True)
class Resources:
    """Logical resources of one circuit; `gates` as `qml.specs` counts them on the simulator's gate set.

    An inverse counts with its gate. `t_per_query` is the mean over the samplers on the tape.
    """

    qubits: int
    ancillas: int
    depth: int
    queries: int
    rotations: int
    delta: float
    t_per_query: float
    t_samplers: int
    t_total: int
    gates: dict[str, int] = field(repr=False)

    def frame(self) -> pd.DataFrame:
        """The numbers as one column, without the gate table."""
        rows = {name: value for name, value in self.__dict__.items() if name != "gates"}
        return pd.DataFrame({"value": pd.Series(rows, dtype=object)})


def resources(circuit: NestedCircuit, budget: float = 1e-3, device: str = "lightning.qubit") -> Resources:
    """Counts a nested circuit: qubits, depth and gates from `qml.specs`, T gates from the formulas above.

    budget: total synthesis error (operator norm) of the whole circuit, in (0, 1).
    """
    if not 0 < budget < 1:
        raise ValueError(f"budget must lie in (0, 1), got {budget}")
    tape = circuit.tape
    plain = expand(tape)

    def run() -> Any:
        for op in plain.operations:
            qml.apply(op)
        return qml.apply(tape.measurements[0])

    node = qml.QNode(run, qml.device(device, wires=circuit.qubits), diff_method=None)
    counted = qml.specs(node, level="device")()["resources"]
    gates: dict[str, int] = {}
    for name, number in counted.gate_types.items():
        gate = name.replace("Adjoint(", "").rstrip(")") if name.startswith("Adjoint(") else name
        gates[gate] = gates.get(gate, 0) + int(number)
    whole = tally(tape.operations)
    delta = budget / max(whole.rotations, 1)
    queries = count_queries(tape)
    samplers = _sampler_part(tape.operations)
    t_samplers = samplers.t_count(delta)
    return Resources(
        qubits=circuit.qubits,
        ancillas=whole.ancillas,
        depth=int(counted.depth),
        queries=queries,
        rotations=whole.rotations,
        delta=delta,
        t_per_query=t_samplers / queries,
        t_samplers=t_samplers,
        t_total=whole.t_count(delta),
        gates=gates,
    )


def _sampler_part(ops: Iterable[Operator]) -> Tally:
    """The tally of the samplers alone. In a nested tape they stand at the top level, bare or as adjoints."""
    return tally(op for op in ops if isinstance(op.base if isinstance(op, qml.ops.Adjoint) else op, Sampler))
