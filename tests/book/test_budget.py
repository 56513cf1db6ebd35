"""The wall limit of a notebook holds for every time that a report can state."""

from pathlib import Path

import pytest

import budget


def _report(path: Path, *times: str) -> str:
    cases = "".join(f'<testcase name="01_x.ipynb::Cell {i}" time="{t}"/>' for i, t in enumerate(times))
    path.write_text(f"<testsuite>{cases}</testsuite>", encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("times", "over"),
    [(("100", "79.5"), False), (("100", "81"), True), (("nan",), True), (("-1e9", "999"), True), ((), True)],
)
def test_a_notebook_is_held_to_its_limit(times: tuple[str, ...], over: bool, tmp_path: Path) -> None:
    assert bool(budget.main([_report(tmp_path / "nbval.xml", *times)])) == over


@pytest.mark.parametrize("limit", ["nan", "inf", "0"])
def test_a_limit_that_limits_nothing_is_refused(limit: str, tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        budget.main([_report(tmp_path / "nbval.xml", "1"), "--limit", limit])
