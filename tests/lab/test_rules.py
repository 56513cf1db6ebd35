"""Every rule at and around its edges."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icml26.lab.ledger import Argued, AtLeast, AtMost, Between, Direction, OutOfReach, Within

YES, DIRECTION, NO = "reproduced", "direction reproduced", "not reproduced"
finite = st.floats(-1e6, 1e6)


@pytest.mark.parametrize(
    ("rule", "measured", "verdict"),
    [
        (Within(1.0, abs=0.1), 1.1, YES),  # 1.1 - 1.0 > 0.1 in binary; the decimal edge counts as inside
        (Within(1.0, abs=0.1), 0.9, YES),
        (Within(1.0, abs=0.1), 1.1001, NO),
        (Within(1.0, abs=0.1), 0.8999, NO),
        (Within(-2.0, rel=0.05), -2.1, YES),  # a fraction of the size of the target, whatever its sign
        (Within(-2.0, rel=0.05), -2.1001, NO),
        (Within(-2.0, rel=0.05), 2.0, NO),
        (Within(6.96, rel=0), 6.96, YES),
        (Within(0, abs=1e-3), -1e-3, YES),
        (Within(0, abs=1e-3), -1.1e-3, NO),
        (AtLeast(10), 10, YES),
        (AtLeast(10), 9.999, NO),
        (AtLeast(0.3), 0.1 + 0.2, YES),
        (AtLeast(0), -1e-12, NO),
        (AtMost(0.3), 0.1 + 0.2, YES),
        (AtMost(10), 10.001, NO),
        (AtMost(-1), -1, YES),
        (Between(-0.6, -0.4), -0.6, YES),
        (Between(-0.6, -0.4), -0.4, YES),
        (Between(-0.6, -0.4), -0.399, NO),
        (Between(-0.6, -0.4), -0.601, NO),
        (Between(-0.6, -0.4), 0.5, NO),
    ],
)
def test_one_number_against_edges(rule, measured, verdict):
    assert rule.verdict(measured) == verdict
    assert rule.verdict(np.float64(measured)) == verdict


@pytest.mark.parametrize(
    ("rule", "measured", "interval", "verdict"),
    [
        (Direction(+1, paper=0.6), 0.2, (0.1, 0.3), DIRECTION),  # exactly a third
        (Direction(+1, paper=0.6), 0.19, (0.1, 0.3), NO),
        (Direction(+1, paper=0.6), 5.0, (0.0, 9.0), NO),  # touches zero
        (Direction(+1, paper=0.6), 5.0, (-0.1, 9.0), NO),
        (Direction(+1, paper=0.6), 5.0, (1e-9, 9.0), DIRECTION),
        (Direction(+1, paper=0.6), -0.5, (-0.6, -0.4), NO),  # clear of zero on the wrong side
        (Direction(-1, paper=-0.6), -0.2, (-0.3, -0.1), DIRECTION),
        (Direction(-1, paper=-0.6), -0.19, (-0.3, -0.1), NO),
        (Direction(-1, paper=-0.6), -0.5, (-0.6, 0.0), NO),
        (Direction(-1, paper=-0.6), 0.5, (0.4, 0.6), NO),
        (Direction(+1), 0.001, (0.0005, 0.002), DIRECTION),  # figure not public: the interval alone
        (Direction(+1), 0.001, (0.0, 0.002), NO),
        (Direction(-1), -0.001, (-0.002, -0.0005), DIRECTION),
        # A ratio: no effect is 1; the paper's 3.1 times is an effect of 2.1, a third of it is 0.7.
        (Direction(+1, paper=2.1, zero=1.0), 1.7, (1.2, 2.2), DIRECTION),
        (Direction(+1, paper=2.1, zero=1.0), 1.69, (1.2, 2.2), NO),
        (Direction(+1, paper=2.1, zero=1.0), 1.7, (1.0, 2.2), NO),
        (Direction(-1, zero=1.0), 0.5, (0.4, 0.99), DIRECTION),
        (Between(1, 2, verdict=DIRECTION), 1.5, (1.0, 2.0), DIRECTION),
        (Between(1, 2, verdict=DIRECTION), 1.5, (0.99, 2.0), NO),
        (Between(1, 2, verdict=DIRECTION), 1.5, (1.0, 2.01), NO),
        (Between(1, 2), 1.5, (0.0, 9.0), YES),  # a plain Between judges the number
    ],
)
def test_one_number_and_its_interval(rule, measured, interval, verdict):
    assert rule.verdict(measured, interval) == verdict
    assert rule.verdict(measured, np.array(interval)) == verdict


@given(finite, st.floats(0.01, 1e6), st.floats(0.01, 1e6), st.sampled_from([1, -1]))
def test_a_direction_does_not_care_where_zero_lies(zero, effect, spread, sign):
    """Shifting everything by `zero`, or mirroring everything, changes no verdict (away from the edges)."""
    plain = Direction(+1, paper=1.0).verdict(effect, (effect - spread, effect + spread))
    if abs(effect - spread) < 1e-6 or abs(effect - 1 / 3) < 1e-6:
        return
    middle = zero + sign * effect
    moved = Direction(sign, paper=float(sign), zero=zero).verdict(middle, (middle - spread, middle + spread))
    assert moved == plain


@given(finite, st.floats(0, 1e3), finite)
def test_within_is_symmetric_about_its_target(target, tolerance, offset):
    rule = Within(target, abs=tolerance)
    if abs(abs(offset) - tolerance) > 1e-3:
        assert rule.verdict(target + offset) == rule.verdict(target - offset)
        assert (rule.verdict(target + offset) == YES) is (abs(offset) < tolerance)


@pytest.mark.parametrize(
    ("checks", "verdict"),
    [
        ({"unbiased": True, "bound": True}, "argued"),
        ({"unbiased": np.True_, "bound": np.True_}, "argued"),
        ({"unbiased": True, "bound": False}, NO),
        ({"unbiased": True}, NO),  # a check that was not run has not passed
        ({}, NO),
    ],
)
def test_a_theorem_needs_every_check(checks, verdict):
    assert Argued(("unbiased", "bound")).verdict(checks=checks) == verdict


def test_a_theorem_refuses_checks_that_it_would_ignore():
    rule = Argued(("unbiased",))
    with pytest.raises(ValueError, match="'unbaised' is not among"):
        rule.verdict(checks={"unbaised": True})
    with pytest.raises(ValueError, match="this rule needs unbiased, got None"):
        rule.verdict(1.0)
    for truthy in (1, "yes", 0.0):
        with pytest.raises(TypeError, match="unbiased"):
            rule.verdict(checks={"unbiased": truthy})
    for names in ((), ("a", "a"), ("",)):
        with pytest.raises(ValueError, match="checks must be different names"):
            Argued(names)


def test_out_of_reach_measures_nothing():
    rule = OutOfReach("rent eight GPUs for a week")
    assert rule.verdict() == "out of reach here"
    for given_ in ({"measured": 1.0}, {"interval": (0, 1)}, {"checks": {}}):
        with pytest.raises(ValueError, match="no measurement"):
            rule.verdict(**given_)
    with pytest.raises(ValueError, match="recipe"):
        OutOfReach("  ")


NUMERIC = [Within(1, abs=1), Direction(1), Between(0, 1), Between(0, 1, DIRECTION), AtLeast(1), AtMost(1)]


@pytest.mark.parametrize("rule", NUMERIC, ids=str)
def test_no_verdict_without_a_finite_number(rule):
    for bad in (math.nan, math.inf, -math.inf, np.float32("nan")):
        with pytest.raises(ValueError, match="measured must be finite"):
            rule.verdict(bad, (0.5, 1.0))
        with pytest.raises(ValueError, match="interval must be finite"):
            rule.verdict(0.7, (0.5, bad))
    with pytest.raises(ValueError, match="measured: the rule"):
        rule.verdict(None, (0.5, 1.0))
    for bad in (True, "1.0"):
        with pytest.raises(TypeError):
            rule.verdict(bad, (0.5, 1.0))
    for bad in ((1.0, 0.5), (1.0,), (1.0, 2.0, 3.0)):
        with pytest.raises(ValueError, match="interval must be"):
            rule.verdict(0.7, bad)


@pytest.mark.parametrize("rule", [Direction(1), Between(0, 1, DIRECTION)], ids=str)
def test_a_direction_needs_its_interval(rule):
    with pytest.raises(ValueError, match="95 % interval"):
        rule.verdict(0.5)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Within(1.0), "either rel or abs"),
        (lambda: Within(1.0, rel=0.1, abs=0.1), "either rel or abs"),
        (lambda: Within(0, rel=0.1), "target of 0"),
        (lambda: Within(1, abs=-0.1), "negative"),
        (lambda: Within(math.nan, abs=1), "target must be finite"),
        (lambda: Within(1, rel=math.inf), "rel must be finite"),
        (lambda: Direction(0), "sign must be"),
        (lambda: Direction(2), "sign must be"),
        (lambda: Direction(1, paper=-0.5), "effect of sign"),
        (lambda: Direction(-1, paper=0.5), "effect of sign"),
        (lambda: Direction(1, paper=0), "effect of sign"),
        (lambda: Direction(1, zero=math.nan), "zero must be finite"),
        (lambda: Between(2, 1), "low must not exceed high"),
        (lambda: Between(1, 2, verdict="argued"), "verdict must be"),
        (lambda: AtLeast(math.inf), "x must be finite"),
        (lambda: AtMost(math.nan), "x must be finite"),
    ],
)
def test_a_rule_that_means_nothing_cannot_be_written(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (Within(6.96, rel=0.02), "within 2 % of 6.96"),
        (Within(-0.5, abs=0.1), "within 0.1 of -0.5"),
        (Direction(1), "95 % interval above 0 (the paper's figure is not public)"),
        (
            Direction(-1, paper=-0.6),
            "95 % interval below 0 and effect at least 0.2 below it (a third of the paper's -0.6)",
        ),
        (Between(1, 2), "between 1 and 2"),
        (Between(1, 2, DIRECTION), "95 % interval between 1 and 2"),
        (AtLeast(10), "at least 10"),
        (AtMost(1e-10), "at most 1e-10"),
        (Argued(("a", "b")), "the argument, and these finite checks pass: a, b"),
        (OutOfReach("ask"), "out of reach here; recipe: ask"),
    ],
)
def test_a_rule_reads_as_a_sentence(rule, text):
    assert str(rule) == text


def test_rules_are_frozen_data():
    assert Between(1, 2) == Between(1, 2) != Between(1, 2, DIRECTION)
    assert len({Within(1, abs=1), Within(1, abs=1), AtLeast(1)}) == 2
    with pytest.raises(AttributeError):
        AtLeast(1).x = 0


class Tensorlike:
    """What float() takes of torch's tensors, without torch."""

    def __init__(self, dtype):
        self.dtype = dtype

    def __float__(self):
        return 1.0


@pytest.mark.parametrize(
    "value",
    [np.complex128(1 + 5j), np.array(True), np.array(1j), Tensorlike("torch.bool"), Tensorlike("torch.complex64")],
    ids=["complex", "bool array", "complex array", "bool tensor", "complex tensor"],
)
def test_a_bool_or_complex_number_is_none(value):
    with pytest.raises(TypeError, match="measured must be a"):
        AtLeast(0.5).verdict(value)
    assert AtLeast(0.5).verdict(Tensorlike("torch.float32")) == "reproduced"


def test_an_interval_holds_what_it_is_the_interval_of():
    for ends in ((0.1, 0.4), (0.6, 0.9)):
        with pytest.raises(ValueError, match="expected one that holds measured = 0.5"):
            Direction(1).verdict(0.5, ends)
    assert Direction(1).verdict(0.5, (0.5, 0.5)) == "direction reproduced"


def test_checks_belong_to_arguments():
    with pytest.raises(ValueError, match=r"checks: .* judges a number, got \['mean'\]"):
        AtLeast(1).verdict(2, checks={"mean": False})
    with pytest.raises(TypeError, match="checks must be a tuple of names, got 'ab'|checks"):
        Argued("ab")
