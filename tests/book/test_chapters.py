"""What every chapter owes the book: claims that can fail, exercises that can fail, current tables, one address."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from icml26 import lab

ROOT = Path(__file__).resolve().parents[2]
SLUGS = sorted(
    match[1]
    for path in (ROOT / "notebooks").glob("*.py")
    if (match := re.fullmatch(r"\d\d_(.+)", path.stem)) and not path.stem.endswith("_experiments")
)
CLAIMS = [(slug, claim) for slug in SLUGS for claim in import_module(f"icml26.{slug}.claims").CLAIMS]
EXERCISES = [(slug, e) for slug in SLUGS for e in import_module(f"icml26.{slug}.exercises").EXERCISES.values()]
WRONG = [(slug, exercise, name) for slug, exercise in EXERCISES for name in exercise.wrong]


@pytest.mark.parametrize(("slug", "claim"), CLAIMS, ids=lambda value: getattr(value, "id", value))
def test_every_claim_can_be_refuted(slug, claim):
    assert claim.refutation() in ("not reproduced", "out of reach here")


@pytest.mark.parametrize(("slug", "exercise", "name"), WRONG, ids=lambda value: getattr(value, "id", value))
def test_every_wrong_answer_is_refused(slug, exercise, name):
    assert not lab.check.grade(exercise, exercise.wrong[name]).right


@pytest.mark.parametrize("slug", SLUGS)
def test_a_chapter_has_three_or_four_exercises_and_their_keys_are_their_ids(slug):
    exercises = import_module(f"icml26.{slug}.exercises").EXERCISES
    assert 3 <= len(exercises) <= 4
    assert all(key == exercise.id for key, exercise in exercises.items())


@pytest.mark.parametrize("slug", SLUGS)
def test_the_tables_are_those_of_the_experiment_and_current(slug):
    experiment = import_module(f"icml26.{slug}.experiment")
    found = {name: reasons for package, name, reasons in lab.tables.status(f"icml26.{slug}")}
    assert set(found) == set(experiment.TABLES)
    stale = {name: reasons for name, reasons in found.items() if reasons}
    assert not stale, f"make tables CHAPTER=… again: {stale}"


@pytest.mark.parametrize("slug", SLUGS)
def test_every_table_says_where_it_comes_from(slug):
    for package, name, _ in lab.tables.status(f"icml26.{slug}"):
        origin = lab.tables.read(package, name).provenance
        assert f"-m icml26.{slug}.experiment --table {name}" in origin["command"]
        assert origin["cpu_seconds"] >= 0
        assert origin["machine"]["cpu"]
        assert origin["date"]
