"""The coherent nested circuits against a small reference that shares only the outcome law with them."""

import numpy as np
import pytest

from icml26.nested_expectations.coherent import (
    Estimation,
    NestedCircuit,
    Term,
    collapsed,
    correction,
    direct,
    schedule,
)
from icml26.nested_expectations.problems import LatticeBermudan, TreeRNE
from icml26.nested_expectations.qae import outcome_law


def put(dates=2, qubits=1):
    return LatticeBermudan(spot=36.0, strike=40.0, volatility=0.4, dates=dates, qubits=qubits)


def inner_law(problem, x, M, window):
    """Values and masses of the inner estimate at node x of date 1 (two dates, units of the scale)."""
    child, prob = problem.children(1, np.array([x]))
    a = float(prob[0] @ problem.value(child[0])) / problem.scale
    values, probs = outcome_law(a, M, window)
    linked = problem.link(1, np.full(len(values), x), values * problem.scale) / problem.scale
    return list(zip(linked, probs, strict=True))


def reference(problem, outer, inners, window, c):
    """Outer law by enumeration: every x, every tuple of inner outcomes, the clip in plain Python."""
    child, prob = problem.children(0, np.array([0]))
    radius = c * 2.0 ** -(len(inners) - 1)
    amplitude = 0.0
    for x, px in zip(child[0], prob[0], strict=True):
        branches = [(px, [])]
        for M in inners:
            branches = [
                (p * q, [*estimates, e])
                for p, estimates in branches
                for e, q in inner_law(problem, x, M, window)
            ]
        for p, estimates in branches:
            chain = [estimates[0]]
            for level, e in enumerate(estimates[1:], start=1):
                r = c / 2**level
                chain.append(min(max(e, chain[-1] - r), chain[-1] + r))
            if len(chain) == 1:
                amplitude += p * chain[0]
            else:
                difference = chain[-1] - chain[-2]
                assert abs(difference) <= radius + 1e-15
                amplitude += p * (difference + radius) / (2 * radius)
    values, probs = outcome_law(min(max(amplitude, 0.0), 1.0), outer, window)
    return (values if len(inners) == 1 else radius * (2 * values - 1)), probs


CASES = {
    # name: (qubits of a step, outer M, inner Ms, window, c, qubits of the circuit)
    "direct-9": (1, 8, (4,), "cosine", 0.5, 9),
    "direct-12": (2, 8, (8,), "cosine", 0.5, 12),
    "direct-flat": (1, 4, (8,), "flat", 0.5, 9),
    "telescoped-13": (1, 4, (4, 8), "cosine", 0.5, 13),
    "telescoped-14": (2, 4, (2, 4), "cosine", 0.5, 14),
    "telescoped-narrow-clip": (1, 8, (2, 4), "cosine", 0.15, 12),
    "telescoped-flat": (1, 4, (2, 4), "flat", 0.3, 11),
    "three-estimates": (1, 4, (2, 4, 8), "cosine", 0.4, 16),
    "telescoped-15": (2, 4, (4, 4), "cosine", 0.5, 15),
}


@pytest.mark.parametrize("name", CASES)
def test_circuit_law_is_the_composite_law(name):
    qubits, outer, inners, window, c, total = CASES[name]
    problem = put(qubits=qubits)
    term = Term(outer, tuple(Estimation((Term(M),)) for M in inners))
    circuit = NestedCircuit(problem, term, window, c)
    assert circuit.qubits == total
    values, probs = circuit.law()
    expected_values, expected = reference(problem, outer, inners, window, c)
    assert np.max(np.abs(values - expected_values)) < 1e-14
    assert np.max(np.abs(probs - expected)) < 1e-10


def test_the_clip_is_at_work():
    """The narrow case above must differ from the same circuit with a window too wide to clip."""
    problem, inners = put(), (2, 4)
    clipped = reference(problem, 8, inners, "cosine", 0.15)
    free = reference(problem, 8, inners, "cosine", 4.0)
    means = [values @ probs for values, probs in (clipped, free)]
    # Undo the outer window's shrinking factor cos(π/M) about the middle, 0 here.
    assert abs(means[0] - means[1]) / np.cos(np.pi / 8) > 0.05


def test_p_0_is_the_base_term():
    problem = put()
    a, b = NestedCircuit(problem, correction(0, 8, 4)), NestedCircuit(problem, direct(8, 4))
    assert a.term == b.term
    values, probs = a.law()
    assert np.max(np.abs(probs - reference(problem, 8, (4,), "cosine", 0.5)[1])) < 1e-10
    assert values.min() == 0


@pytest.mark.parametrize(("outer", "inner"), [(4, 2), (8, 4), (4, 16)])
def test_direct_nesting_multiplies_queries(outer, inner):
    circuit = NestedCircuit(put(), direct(outer, inner))
    assert circuit.queries() == circuit.term.queries == (2 * outer - 1) * (1 + (2 * inner - 1))


@pytest.mark.parametrize(("p", "outer", "M0"), [(0, 4, 4), (1, 4, 2), (1, 8, 4), (2, 4, 2)])
def test_telescoped_queries_are_the_cost_recipe(p, outer, M0):
    circuit = NestedCircuit(put(), correction(p, outer, M0))
    recipe = (2 * outer - 1) * (1 + sum(2 * M0 * 2**q - 1 for q in range(p + 1)))
    assert circuit.queries() == circuit.term.queries == recipe


def test_three_dates_directly():
    """D = 3 nests twice: law and cost, with the reference written out for three levels."""
    problem = put(dates=3)
    circuit = NestedCircuit(problem, direct(4, 2, 2), "flat")
    assert circuit.queries() == 7 * (1 + 3 * (1 + 3))
    scale, amplitude = problem.scale, 0.0
    child, prob = problem.children(0, np.array([0]))
    for x, px in zip(child[0], prob[0], strict=True):
        second, qx = problem.children(1, np.array([x]))
        middle = 0.0
        for y, qy in zip(second[0], qx[0], strict=True):
            third, ry = problem.children(2, np.array([y]))
            values, probs = outcome_law(float(ry[0] @ problem.value(third[0])) / scale, 2, "flat")
            middle += qy * float(probs @ problem.link(2, np.full(2, y), values * scale)) / scale
        values, probs = outcome_law(middle, 2, "flat")
        amplitude += px * float(probs @ problem.link(1, np.full(2, x), values * scale)) / scale
    assert np.max(np.abs(circuit.law()[1] - outcome_law(amplitude, 4, "flat")[1])) < 1e-10


def test_telescoped_inside_telescoped_counts_like_its_schedule():
    """D = 3 at level 1: inner estimates are sums of two terms; far too wide to run, but countable."""
    outer = schedule(3, 1, 2)
    circuits = [NestedCircuit(put(dates=3), term) for term in outer.terms]
    assert sum(circuit.queries() for circuit in circuits) == outer.queries
    T2 = {q: schedule(2, q, 2).queries for q in (0, 1)}
    assert T2[0] == 3 * (1 + 3)
    assert T2[1] == 7 * (1 + 3) + 3 * (1 + 3 + 7)
    assert outer.queries == 7 * (1 + T2[0]) + 3 * (1 + T2[0] + T2[1])


def test_no_payoff_no_estimate():
    """A put far out of the money is worth 0: the flag never rises, flat estimates say 0 for sure."""
    problem = LatticeBermudan(spot=1000.0, strike=40.0, volatility=0.1, dates=2, qubits=1)
    values, probs = NestedCircuit(problem, direct(4, 4), "flat").law()
    assert values[0] == 0
    assert probs[0] == pytest.approx(1, abs=1e-10)


def test_collapsed_is_plain_estimation_of_the_target():
    problem = put(qubits=2)
    values, probs, queries = collapsed(problem, 64)
    exact = float(problem.exact()[0][0]) / problem.scale
    assert queries == 127
    assert probs @ values == pytest.approx(0.5 + np.cos(np.pi / 64) * (exact - 0.5), abs=1e-12)


def test_a_law_that_differs_between_parents():
    """The lattice has one law for all nodes; a user tree need not."""
    problem = TreeRNE(
        children=[
            (np.array([[0, 1]]), np.array([[0.3, 0.7]])),
            (np.array([[0, 1], [2, 3]]), np.array([[0.9, 0.1], [0.2, 0.8]])),
        ],
        values=np.array([0.1, 0.9, 0.25, 0.6]),
        links=[lambda node, mean: np.maximum(mean, np.array([0.35, 0.4])[node])],
    )
    circuit = NestedCircuit(problem, correction(1, 4, 2))
    _, probs = circuit.law()
    assert np.max(np.abs(probs - reference(problem, 4, (2, 4), "cosine", 0.5)[1])) < 1e-10


BAD = [
    (lambda: NestedCircuit(put(), Term(4)), "deep"),
    (lambda: NestedCircuit(put(), direct(4, 4, 4)), "deep"),
    (lambda: NestedCircuit(put(dates=1), direct(4, 4)), "deep"),
    (lambda: NestedCircuit(put(), direct(4, 4), "hann"), "window"),
    (lambda: NestedCircuit(put(), direct(4, 4), c=0.0), "c must lie"),
    (lambda: NestedCircuit(put(), direct(4, 4), c=5.0), "c must lie"),
    (lambda: NestedCircuit(put(), direct(4, 4), c=float("nan")), "c must lie"),
    (lambda: direct(4, 3), "power of two"),
    (lambda: direct(), "none"),
    (lambda: correction(-1, 4, 4), "p must"),
    (lambda: schedule(0, 1, 4), "depth"),
    (lambda: schedule(2, -1, 4), "level"),
    (lambda: collapsed(put(), 12), "power of two"),
]


@pytest.mark.parametrize(("call", "message"), BAD)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
