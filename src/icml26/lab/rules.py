"""The rules that turn a measurement into a verdict: data, written down before the run.

`str(rule)` is the sentence that the ledger keeps and the scoreboard shows.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, SupportsFloat

import numpy as np

REPRODUCED = "reproduced"
DIRECTION = "direction reproduced"
ARGUED = "argued"
NOT_REPRODUCED = "not reproduced"
OUT_OF_REACH = "out of reach here"
VERDICTS = (REPRODUCED, DIRECTION, ARGUED, NOT_REPRODUCED, OUT_OF_REACH)

Interval = tuple[int | float, int | float]

# Decimal edges are meant: 1.1 is within 0.1 of 1 although its binary neighbour is not.
_SLACK = 1e-9


class Rule(ABC):
    """How a measurement becomes a verdict."""

    def verdict(
        self,
        measured: SupportsFloat | None = None,
        interval: Iterable[SupportsFloat] | None = None,
        checks: Mapping[str, bool | np.bool_] | None = None,
    ) -> str:
        """The verdict, one of `VERDICTS`.

        Args:
            measured: the number that was measured, finite, in the claim's unit.
            interval: its 95 % interval (low, high).
            checks: name -> whether that finite check passed (for `Argued`).

        Raises:
            TypeError, ValueError: what the rule needs is missing or is not a finite number, the interval
                does not hold the measured number, or there are checks that the rule would ignore.
        """
        value, ends = None if measured is None else number("measured", measured), bounds(interval)
        if value is not None and ends is not None:
            low, high = ends
            if not (_at_least(value, low) and _at_least(high, value)):
                raise ValueError(f"interval: got ({low}, {high}), expected one that holds measured = {value}")
        return self._decide(value, ends, checks)

    @abstractmethod
    def _decide(
        self,
        measured: int | float | None,
        interval: Interval | None,
        checks: Mapping[str, bool | np.bool_] | None,
    ) -> str: ...


class _Numeric(Rule):
    """A rule about one measured number."""

    reached = REPRODUCED

    @abstractmethod
    def _holds(self, measured: int | float, interval: Interval | None) -> bool: ...

    def _decide(
        self,
        measured: int | float | None,
        interval: Interval | None,
        checks: Mapping[str, bool | np.bool_] | None,
    ) -> str:
        if checks is not None:
            raise ValueError(f"checks: the rule '{self}' judges a number, got {sorted(checks)}")
        if measured is None:
            raise ValueError(f"measured: the rule '{self}' judges a number, got None")
        if interval is None and self.reached == DIRECTION:
            raise ValueError("interval: a direction is judged by its 95 % interval (low, high), got None")
        return self.reached if self._holds(measured, interval) else NOT_REPRODUCED


@dataclass(frozen=True)
class Within(_Numeric):
    """Reproduced iff measured lies within `rel` (a fraction of the target) or `abs` of the paper's figure."""

    target: int | float
    rel: int | float | None = None
    abs: int | float | None = None

    def __post_init__(self) -> None:
        number("target", self.target)
        if (self.rel is None) == (self.abs is None):
            raise ValueError(f"Within takes either rel or abs, got rel={self.rel}, abs={self.abs}")
        if self.rel is not None and self.target == 0:
            raise ValueError("rel means nothing around a target of 0: give abs")
        if self._allowed() < 0:
            raise ValueError(f"rel or abs must not be negative, got rel={self.rel}, abs={self.abs}")

    def _allowed(self) -> int | float:
        if self.rel is not None:
            return number("rel", self.rel) * math.fabs(self.target)
        return number("abs", self.abs)

    def _holds(self, measured: int | float, interval: Interval | None) -> bool:
        return _at_least(self._allowed(), math.fabs(measured - self.target), self.target)

    def __str__(self) -> str:
        by = f"{_text(100 * self.rel)} %" if self.rel is not None else _text(self.abs)
        return f"within {by} of {_text(self.target)}"


@dataclass(frozen=True)
class Direction(_Numeric):
    """Direction reproduced iff the 95 % interval is on the effect's side of `zero`, the effect large enough.

    Attributes:
        sign: +1 when the effect lies above `zero`, -1 when below.
        paper: the paper's *effect*, that is its figure minus `zero`; measured minus `zero` must reach a third
            of it. None where the paper's figure is not public: then the interval alone decides.
        zero: the value that means no effect (0 for a difference, 1 for a ratio).
    """

    sign: int
    paper: int | float | None = None
    zero: int | float = 0.0

    reached = DIRECTION

    def __post_init__(self) -> None:
        if self.sign not in (1, -1) or isinstance(self.sign, bool):
            raise ValueError(f"sign must be +1 or -1, got {self.sign!r}")
        number("zero", self.zero)
        if self.paper is not None and number("paper", self.paper) * self.sign <= 0:
            raise ValueError(f"paper must be an effect of sign {self.sign:+d}, got {self.paper}")

    def _holds(self, measured: int | float, interval: Interval | None) -> bool:
        assert interval is not None
        nearest = interval[0] if self.sign > 0 else interval[1]
        effect = self.sign * (measured - self.zero)
        enough = self.paper is None or _at_least(effect, self.sign * self.paper / 3, self.zero)
        # An interval that touches zero is not on the effect's side of it.
        return self.sign * (nearest - self.zero) > 0 and effect > 0 and enough

    def __str__(self) -> str:
        side = "above" if self.sign > 0 else "below"
        text = f"95 % interval {side} {_text(self.zero)}"
        if self.paper is None:
            return f"{text} (the paper's figure is not public)"
        third = _text(math.fabs(self.paper) / 3, 4)
        return f"{text} and effect at least {third} {side} it (a third of the paper's {_text(self.paper)})"


@dataclass(frozen=True, init=False)
class Between(_Numeric):
    """`low <= measured <= high`; for the verdict "direction reproduced" the whole interval lies there."""

    low: int | float
    high: int | float
    reached: str = REPRODUCED

    def __init__(self, low: int | float, high: int | float, verdict: str = REPRODUCED) -> None:
        # The argument is called as in the ledger; the attribute cannot be, for the method's sake.
        if number("low", low) > number("high", high):
            raise ValueError(f"low must not exceed high, got {low} > {high}")
        if verdict not in (REPRODUCED, DIRECTION):
            raise ValueError(f"verdict must be {REPRODUCED!r} or {DIRECTION!r}, got {verdict!r}")
        for name, value in (("low", low), ("high", high), ("reached", verdict)):
            object.__setattr__(self, name, value)

    def _holds(self, measured: int | float, interval: Interval | None) -> bool:
        values = [measured]
        if self.reached == DIRECTION and interval is not None:
            values.extend(interval)
        return all(_at_least(v, self.low) and _at_least(self.high, v) for v in values)

    def __str__(self) -> str:
        what = "95 % interval " if self.reached == DIRECTION else ""
        return f"{what}between {_text(self.low)} and {_text(self.high)}"


@dataclass(frozen=True)
class AtLeast(_Numeric):
    """Reproduced iff measured >= x."""

    x: int | float

    def __post_init__(self) -> None:
        number("x", self.x)

    def _holds(self, measured: int | float, interval: Interval | None) -> bool:
        return _at_least(measured, self.x)

    def __str__(self) -> str:
        return f"at least {_text(self.x)}"


@dataclass(frozen=True)
class AtMost(_Numeric):
    """Reproduced iff measured <= x."""

    x: int | float

    def __post_init__(self) -> None:
        number("x", self.x)

    def _holds(self, measured: int | float, interval: Interval | None) -> bool:
        return _at_least(self.x, measured)

    def __str__(self) -> str:
        return f"at most {_text(self.x)}"


@dataclass(frozen=True)
class Argued(Rule):
    """A theorem: argued iff every finite check named here is there and passed."""

    checks: tuple[str, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.checks, tuple) or not all(isinstance(name, str) for name in self.checks):
            raise TypeError(f"checks must be a tuple of names, got {self.checks!r}")
        if not self.checks or len(set(self.checks)) < len(self.checks) or not all(self.checks):
            raise ValueError(f"checks must be different names, at least one, got {self.checks}")

    def _decide(
        self,
        measured: int | float | None,
        interval: Interval | None,
        checks: Mapping[str, bool | np.bool_] | None,
    ) -> str:
        return ARGUED if self.passed(checks) == len(self.checks) else NOT_REPRODUCED

    def passed(self, checks: Mapping[str, bool | np.bool_] | None) -> int:
        """How many of the named checks are there and True.

        Raises:
            TypeError: a check is not a bool.
            ValueError: no checks are given, or one that the rule does not name (it would be ignored).
        """
        if checks is None:
            raise ValueError(f"checks: this rule needs {', '.join(self.checks)}, got None")
        for name, value in checks.items():
            if name not in self.checks:
                raise ValueError(f"checks: {name!r} is not among the rule's {', '.join(self.checks)}")
            if not isinstance(value, bool | np.bool_):
                raise TypeError(f"checks[{name!r}] must be a bool, got {type(value).__name__} {value!r}")
        return sum(bool(checks.get(name, False)) for name in self.checks)

    def __str__(self) -> str:
        return f"the argument, and these finite checks pass: {', '.join(self.checks)}"


@dataclass(frozen=True)
class OutOfReach(Rule):
    """Needs data, a model or hardware that is not there; `recipe` says how to do it where they are."""

    recipe: str

    def __post_init__(self) -> None:
        if not self.recipe.strip():
            raise ValueError("recipe must say how to test the claim elsewhere, got an empty text")

    def _decide(
        self,
        measured: int | float | None,
        interval: Interval | None,
        checks: Mapping[str, bool | np.bool_] | None,
    ) -> str:
        if measured is not None or interval is not None or checks is not None:
            raise ValueError(
                "measured: a claim out of reach has no measurement; give it a rule that judges one"
            )
        return OUT_OF_REACH

    def __str__(self) -> str:
        return f"out of reach here; recipe: {self.recipe}"


def number(argument: str, value: Any) -> int | float:
    """`value` as a finite Python number; integers stay integers.

    Raises:
        TypeError: it is no real number (a bool is none, nor is a complex number or an array of either).
        ValueError: it is NaN or infinite.
    """
    if isinstance(value, bool | np.bool_ | str | bytes) or not isinstance(value, SupportsFloat):
        raise TypeError(f"{argument} must be a number, got {type(value).__name__} {value!r}")
    # By name, since torch need not be there: float() takes a bool tensor, and drops imaginary parts.
    kind = str(getattr(value, "dtype", ""))
    if isinstance(value, complex) or "complex" in kind or "bool" in kind:
        raise TypeError(f"{argument} must be a real number, got {type(value).__name__} {value!r}")
    if isinstance(value, int | np.integer):
        return int(value)
    result = float(value)
    if not math.isfinite(result):
        raise ValueError(f"{argument} must be finite, got {result}")
    return result


def bounds(interval: Iterable[SupportsFloat] | None) -> Interval | None:
    """`interval` as two finite Python numbers (low, high), low <= high; None stays None.

    Raises:
        TypeError, ValueError: it is not that.
    """
    if interval is None:
        return None
    ends = [number("interval", end) for end in interval]
    if len(ends) != 2 or ends[0] > ends[1]:
        raise ValueError(f"interval must be (low, high) with low <= high, got {tuple(ends)}")
    return ends[0], ends[1]


def _at_least(value: int | float, edge: int | float, scale: int | float = 0.0) -> bool:
    """value >= edge, up to rounding at the size of the numbers that were subtracted."""
    return value >= edge or value >= edge - _SLACK * max(math.fabs(edge), math.fabs(scale))


def _text(value: int | float | None, digits: int = 10) -> str:
    return f"{value:.{digits}g}"
