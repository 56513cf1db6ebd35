"""Exercise checks: they tell a student whether an answer is right, and what to try next; they never raise."""

import dis
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import FunctionType
from typing import Any

Test = tuple[str, Callable[[Any], Any]]


@dataclass(frozen=True)
class Exercise:
    """One exercise.

    Attributes:
        id: its key in the chapter's `EXERCISES`.
        title: what to do, short.
        tests: (description, test) pairs, in the order in which they should fail. A test gets the answer and
            returns True or None when it is right, False when it is wrong, or a string: what is wrong, as a
            hint.
        hints: one hint per test, or fewer: the last serves the rest. Shown where the test gives none itself.
        wrong: name -> a plausible wrong answer; a test of the book sees each fail.
    """

    id: str
    title: str
    tests: Sequence[Test]
    hints: Sequence[str]
    wrong: Mapping[str, Any]

    def __post_init__(self) -> None:
        for name in ("id", "title"):
            if not getattr(self, name).strip():
                raise ValueError(f"{name} of an exercise must not be empty")
        for name in ("tests", "hints", "wrong"):
            if not len(getattr(self, name)):
                raise ValueError(f"{name} of exercise {self.id!r} must not be empty")
        if len(self.hints) > len(self.tests):
            raise ValueError(
                f"hints of exercise {self.id!r}: {len(self.hints)} hints for {len(self.tests)} tests, "
                "the last would never be shown"
            )


@dataclass(frozen=True)
class Result:
    """What a check says: whether the answer is right, and the line that is printed."""

    right: bool
    message: str


def grade(exercise: Exercise, answer: Any) -> Result:
    """Check an answer without printing.

    The tests run in order up to the first that fails. Whatever the answer does wrong, an exception included,
    ends up in the message.
    """
    if _blank(answer):
        return _unanswered(exercise)
    for place, (description, test) in enumerate(exercise.tests):
        hint = exercise.hints[min(place, len(exercise.hints) - 1)]
        try:
            complaint = _complaint(test(answer))
        except NotImplementedError:
            return _unanswered(exercise)
        except (Exception, SystemExit) as error:
            complaint = ""
            hint = f"it stopped with {_one_line(error)} — hint: {hint}"
        else:
            if complaint is None:
                continue
            hint = f"hint: {complaint or hint}"
        return Result(False, f"✗ not yet: {description} — {hint}")
    number = len(exercise.tests)
    return Result(
        True, f"✓ {exercise.title}: {'the check' if number == 1 else f'all {number} checks'} passed"
    )


def run(exercise: Exercise, answer: Any) -> bool:
    """Check an answer, print one line, say whether it is right. Never raises on a student's mistake."""
    result = grade(exercise, answer)
    print(result.message)
    return result.right


def answer(slug: str, id: str, answer: Any) -> bool:
    """Check an answer to exercise `id` of chapter `slug`, from `icml26.<slug>.exercises`.

    Raises:
        ValueError: there is no such chapter or exercise.
    """
    module = f"icml26.{slug}.exercises"
    try:
        exercises: Mapping[str, Exercise] = import_module(module).EXERCISES
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise  # a library of the chapter is missing, which its own message says
        raise ValueError(f"slug {slug!r}: there is no chapter with exercises in {module}") from error
    if id not in exercises:
        raise ValueError(f"id {id!r} is no exercise of {slug}, the exercises are {', '.join(exercises)}")
    return run(exercises[id], answer)


def _unanswered(exercise: Exercise) -> Result:
    return Result(False, f"· not answered yet: {exercise.title} — hint: {exercise.hints[0]}")


def _complaint(outcome: Any) -> str | None:
    """None when the test passed, else the hint that it gave ('' for none)."""
    if isinstance(outcome, str):
        return outcome.strip()
    if outcome is None:
        return None
    if hasattr(outcome, "item"):  # a NumPy bool or a tensor; an array of several raises, and is caught above
        outcome = outcome.item()
    if not isinstance(outcome, bool):
        return f"the answer has an unexpected type or shape, comparing it gave {type(outcome).__name__}"
    return None if outcome else ""


def _blank(answer: Any) -> bool:
    """Whether the stub is still there: None, `...`, NotImplementedError, a function without a body, or a
    collection with a `...` in it or of None alone."""
    if answer is None or answer is ... or answer is NotImplemented:
        return True
    if isinstance(answer, NotImplementedError) or answer is NotImplementedError:
        return True
    if isinstance(answer, FunctionType):
        return _bodiless(answer)
    if isinstance(answer, tuple | list | dict):
        items = list(answer.values()) if isinstance(answer, dict) else list(answer)
        return any(item is ... for item in items) or (bool(items) and all(item is None for item in items))
    return False


def _bodiless(function: FunctionType) -> bool:
    """Whether a function is only a docstring, `...`, `pass` or `return None`."""
    steps = [
        step
        for step in dis.get_instructions(function)
        if step.opname not in ("RESUME", "NOP", "COPY_FREE_VARS")
    ]
    names = [step.opname for step in steps]
    return names in (["LOAD_CONST", "RETURN_VALUE"], ["RETURN_CONST"]) and steps[0].argval in (None, ...)


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    if len(text) > 160:
        text = text[:157] + "…"
    return f"{type(error).__name__}{': ' if text else ''}{text}"
