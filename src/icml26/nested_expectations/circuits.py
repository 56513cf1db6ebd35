"""Amplitude estimation as PennyLane circuits, with queries counted from the tape.

Circuits are lists of operators, first applied first, so that a routine can be inverted, repeated and put
inside another one (build them outside a QNode, which would queue every operator made). One-step samplers
are marked by their own class, `Sampler`: `count_queries` walks an expanded circuit and counts them, inside
adjoints and controlled operations too.

The Grover operator is Q = −A S₀ A† S_flag. Controlled on a phase qubit, only the two reflections *and the
sign* need the control: without them A A† = 1. A† and A are still applied on both branches, so each Q costs
two queries, controlled or not, and the count 2M − 1 of one estimation stands.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from icml26.nested_expectations.qae import window_amplitudes

try:
    import pennylane as qml
    from pennylane.operation import Operation
    from pennylane.operation import Operator as Operator
    from pennylane.tape import QuantumScript as QuantumScript
except ImportError as error:  # pragma: no cover - only without the extra
    raise ImportError("the circuits need PennyLane: pip install 'icml26[nested_expectations]'") from error

# PennyLane itself is handed on, so that a missing package is explained in one place.
__all__ = [
    "Circuit",
    "CircuitOracle",
    "Preparation",
    "Sampler",
    "amplitude_estimation",
    "count_queries",
    "expand",
    "fold",
    "grover",
    "mean_preparation",
    "phase_tape",
    "power_tape",
    "qml",
    "run_probs",
    "table_rotation",
]

Circuit = list[Operator]


def table_rotation(probs: Float[np.ndarray, "n"], controls: Sequence[int], target: int) -> Circuit:
    """Look-up rotation: P(target = 1) = probs[i] when the controls read i (first wire the largest bit).

    A multiplexed R_Y (Möttönen et al. 2004): 2ⁿ rotations and 2ⁿ CNOTs for n controls.
    """
    if probs.shape != (2 ** len(controls),):
        raise ValueError(
            f"probs must have shape ({2 ** len(controls)},), a row a control state, got {probs.shape}"
        )
    if not np.all((probs >= 0) & (probs <= 1)):
        raise ValueError(f"probs must lie in [0, 1], got [{probs.min()}, {probs.max()}]")
    angles = 2 * np.arctan2(np.sqrt(probs), np.sqrt(1 - probs))
    if not controls:
        return [qml.RY(float(angles[0]), wires=target)]
    return [qml.SelectPauliRot(angles, control_wires=list(controls), target_wire=[target], rot_axis="Y")]


class Sampler(Operation):  # type: ignore[misc]
    """One application of a one-step sampler U_d: |x⟩|0⟩ → |x⟩ Σ_y √p(y|x) |y⟩. The unit of all costs.

    Args:
        table: p(y|x) [2^len(parents), 2^len(children)], rows sum to 1.
        parents: wires that hold x (may be none).
        children: wires that receive y.

    Raises ValueError when the shape does not fit the wires or a row is no probability law.
    """

    grad_method = None
    ndim_params = (2,)

    def __init__(self, table: Any, parents: Sequence[int], children: Sequence[int], id: str | None = None):
        table = np.asarray(table, dtype=np.float64)
        expected = (2 ** len(parents), 2 ** len(children))
        if len(children) == 0 or table.shape != expected:
            raise ValueError(f"table must have shape {expected} for these wires, got {table.shape}")
        if not np.all(table >= 0) or np.any(np.abs(table.sum(axis=1) - 1) > 1e-9):
            raise ValueError("table must have non-negative rows that sum to 1")
        self.hyperparameters["parents"] = tuple(parents)
        self.hyperparameters["children"] = tuple(children)
        super().__init__(table, wires=[*parents, *children], id=id)

    @staticmethod
    def compute_decomposition(
        table: Any, wires: Any = None, parents: Sequence[int] = (), children: Sequence[int] = ()
    ) -> Circuit:
        """A binary tree of look-up rotations, one for each child qubit."""
        ops: Circuit = []
        for bit, target in enumerate(children):
            mass = np.asarray(table).reshape(len(table), 2**bit, 2, -1).sum(axis=-1)
            total = mass.sum(axis=-1)
            right = np.divide(mass[..., 1], total, out=np.zeros_like(total), where=total > 0)
            ops += table_rotation(np.clip(right.ravel(), 0.0, 1.0), [*parents, *children[:bit]], target)
        return ops


@dataclass(frozen=True)
class Preparation:
    """An algorithm A: its operators, the wires it writes (all start in |0⟩), and its flag.

    Wires that A only reads as controls, such as a parent register, are not listed: S₀ must not touch them.
    """

    ops: tuple[Operator, ...]
    wires: tuple[int, ...]
    flag: int

    @cached_property
    def inverse(self) -> tuple[Operator, ...]:
        """A†: every operator inverted, in reverse order; an inner estimation is inverted with it."""
        return tuple(qml.adjoint(op, lazy=False) for op in reversed(self.ops))


def mean_preparation(
    probs: Float[np.ndarray, "k"], payoff: Float[np.ndarray, "k"], first: int = 0
) -> Preparation:
    """A for a one-step mean: |0⟩ → Σ_y √p(y) |y⟩ (√(1 − f(y)) |0⟩ + √f(y) |1⟩), f in [0, 1], k = 2^q."""
    probs, payoff = np.asarray(probs, dtype=np.float64), np.asarray(payoff, dtype=np.float64)
    if len(probs) < 2 or len(probs) & (len(probs) - 1):
        raise ValueError(f"probs must have a power of two entries, at least 2, got {len(probs)}")
    q = len(probs).bit_length() - 1
    register, flag = range(first, first + q), first + q
    ops = [Sampler(probs[None, :], (), register), *table_rotation(payoff, register, flag)]
    return Preparation(tuple(ops), (*register, flag), flag)


def grover(A: Preparation, control: int | None = None) -> Circuit:
    """Q = −A S₀ A† S_flag on A's wires, or its controlled version.

    The sign matters: without it the eigenphases shift by π and the estimate becomes 1 − a. Controlled, the
    sign is a phase of the control qubit, so it has to be inside.
    """
    by = [] if control is None else [control]
    *others, last = A.wires
    s_flag = qml.CZ([control, A.flag]) if by else qml.Z(A.flag)
    # S₀ = 1 − 2|0⟩⟨0|: a Z on the last wire between two X, when all others (and the control) allow it.
    s_zero: Circuit = [qml.X(last)]
    values = [1] * len(by) + [0] * len(others)
    s_zero.append(qml.ctrl(qml.Z(last), [*by, *others], control_values=values) if values else qml.Z(last))
    s_zero.append(qml.X(last))
    sign = qml.PhaseShift(np.pi, wires=control) if by else qml.GlobalPhase(np.pi)
    return [s_flag, *A.inverse, *s_zero, *A.ops, sign]


def amplitude_estimation(A: Preparation, phase: Sequence[int], window: str = "flat") -> Circuit:
    """A, the window on `phase` (first wire the largest bit), M − 1 controlled Q, inverse Fourier transform.

    Reading j on `phase` estimates a by sin²(πj/M), M = 2^len(phase), with the law `qae.outcome_law`.
    """
    M = 2 ** len(phase)
    window_amplitudes(M, window)  # refuses unknown windows and empty registers
    ops: Circuit = list(A.ops)
    ops += [qml.Hadamard(w) for w in phase] if window == "flat" else [qml.CosineWindow(wires=phase)]
    for place, wire in enumerate(phase):
        ops += grover(A, control=wire) * 2 ** (len(phase) - 1 - place)
    return [*ops, qml.adjoint(qml.QFT(wires=phase), lazy=False)]


def phase_tape(A: Preparation, M: int, window: str = "flat", shots: int | None = None) -> QuantumScript:
    """The tape of one amplitude estimation of A on log₂M further wires; measures the phase register."""
    window_amplitudes(M, window)
    first = max(w for op in A.ops for w in op.wires) + 1
    phase = list(range(first, first + M.bit_length() - 1))
    return QuantumScript(amplitude_estimation(A, phase, window), [qml.probs(wires=phase)], shots=shots)


def power_tape(A: Preparation, power: int, shots: int | None = None) -> QuantumScript:
    """The tape of Q^power A; measures the flag, P(1) = sin²((2·power + 1)θ)."""
    if power < 0:
        raise ValueError(f"power must be at least 0, got {power}")
    return QuantumScript([*A.ops, *grover(A) * power], [qml.probs(wires=A.flag)], shots=shots)


def _queries(op: Operator) -> int:
    if isinstance(op, Sampler):
        return 1
    if isinstance(op, qml.ops.Pow):
        if op.z != int(op.z):
            raise ValueError(f"a fractional power of a circuit has no query count, got {op.z}")
        return abs(int(op.z)) * _queries(op.base)
    if isinstance(op, (qml.ops.Adjoint, qml.ops.Controlled)):
        return _queries(op.base)
    if op.has_decomposition:  # templates and products carry their operators in it
        return sum(_queries(part) for part in op.decomposition())
    if isinstance(op, (qml.ops.SymbolicOp, qml.ops.CompositeOp)):
        raise ValueError(f"cannot see whether {op.name} contains a sampler: it has no decomposition")
    return 0


def count_queries(tape: QuantumScript) -> int:
    """Applications of a one-step sampler or its inverse on the tape, found by expanding every operator.

    Samplers inside `qml.adjoint`, `qml.ctrl` and `qml.pow` count; an op that is neither a sampler nor
    decomposable costs nothing.
    """
    known: dict[int, int] = {}  # a circuit repeats the same operator objects many times
    for op in tape.operations:
        if id(op) not in known:
            known[id(op)] = _queries(op)
    return sum(known[id(op)] for op in tape.operations)


def fold(
    probs: Float[np.ndarray, "M"] | Int[np.ndarray, "M"],
) -> Float[np.ndarray, "m"] | Int[np.ndarray, "m"]:
    """Adds the outcomes j and M − j, which give the same estimate: [M] → [M/2 + 1]; ValueError for odd M."""
    if len(probs) < 2 or len(probs) % 2:
        raise ValueError(f"probs must hold an even number of outcomes, got {len(probs)}")
    half = len(probs) // 2
    folded = probs[: half + 1].copy()
    folded[1:half] += probs[:half:-1]
    return folded


def _gates(op: Operator) -> Circuit:
    if isinstance(op, qml.ops.Adjoint):
        return [qml.adjoint(gate, lazy=False) for gate in reversed(_gates(op.base))]
    if isinstance(op, (Sampler, qml.SelectPauliRot, qml.CosineWindow, qml.QFT, qml.ops.Prod)):
        return [gate for part in op.decomposition() for gate in _gates(part)]
    return [op]


def expand(tape: QuantumScript) -> QuantumScript:
    """The same tape in plain gates. Each distinct operator is decomposed once: Q repeats a few of them.

    (A simulator would do this for every occurrence anew, which takes longer than the simulation.)
    """
    known: dict[int, Circuit] = {}
    for op in tape.operations:
        if id(op) not in known:
            known[id(op)] = _gates(op)
    ops = [gate for op in tape.operations for gate in known[id(op)]]
    return QuantumScript(ops, tape.measurements, shots=tape.shots)


def run_probs(
    tape: QuantumScript, device: str = "lightning.qubit", seed: int | None = None
) -> Float[np.ndarray, "M"]:
    """Runs a tape that measures one register's probabilities; float64 state vector ("lightning.qubit"…)."""
    simulator = qml.device(device, wires=len(tape.wires), **({} if seed is None else {"seed": seed}))
    (result,) = qml.execute([expand(tape)], simulator, diff_method=None)
    return np.asarray(result, dtype=np.float64)


class CircuitOracle:
    """An `Oracle` whose counts are measured on simulated circuits of A.

    `queries` adds up what was really applied: the samplers on each tape, times its shots.
    """

    def __init__(self, A: Preparation, seed: int, device: str = "lightning.qubit"):
        self.A = A
        self.device = device
        self.seeds = np.random.SeedSequence(seed)
        self.queries = 0

    def _counts(self, tape: QuantumScript, shots: int) -> Int[np.ndarray, "M"]:
        self.queries += shots * count_queries(tape)
        seed = int(self.seeds.spawn(1)[0].generate_state(1)[0])
        return np.rint(run_probs(tape, self.device, seed) * float(shots)).astype(np.int64)

    def phase_counts(self, M: int, window: str, shots: int) -> Int[np.ndarray, "m"]:
        return np.asarray(fold(self._counts(phase_tape(self.A, M, window, shots), shots)))

    def flag_counts(self, power: int, shots: int) -> int:
        return int(self._counts(power_tape(self.A, power, shots), shots)[1])
