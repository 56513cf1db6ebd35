"""The smallest settings take the path of the real ones. NOT WRITTEN YET: the chapter's own columns and invariants."""

from icml26.CHAPTER_SLUG import experiment


def test_the_smoke_settings_take_the_same_path() -> None:
    frame = experiment.errors(experiment.SMOKE, 1)
    assert list(frame["method"].unique()) == list(experiment.METHODS)
    assert frame["rmse"].gt(0).all()
