"""What every chapter owes the book: claims that can fail, exercises that can fail, current tables."""

import pytest

from icml26 import lab
from icml26.CHAPTER_SLUG import experiment
from icml26.CHAPTER_SLUG.claims import CLAIMS
from icml26.CHAPTER_SLUG.exercises import EXERCISES


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_every_claim_can_be_refuted(claim) -> None:
    assert claim.refutation() in ("not reproduced", "out of reach here")


@pytest.mark.parametrize(
    ("exercise", "name"), [(exercise, name) for exercise in EXERCISES.values() for name in exercise.wrong]
)
def test_every_wrong_answer_is_refused(exercise, name: str) -> None:
    assert not lab.check.grade(exercise, exercise.wrong[name]).right


def test_the_tables_are_current() -> None:
    tables = [row for row in lab.tables.status() if row[0] == experiment.PACKAGE]
    assert tables
    assert [row for row in tables if row[2]] == []


def test_the_smoke_settings_take_the_same_path() -> None:
    frame = experiment.errors(experiment.SMOKE, 1)
    assert list(frame["method"].unique()) == list(experiment.METHODS)
    assert frame["rmse"].gt(0).all()
