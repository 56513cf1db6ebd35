"""What the tests of the book share: the scripts on the path, a small book, and one build of this one."""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

SETUP = """\
import importlib.util
import subprocess
import sys

if importlib.util.find_spec("icml26") is None:  # Colab: fetch the book's package; a local checkout has it
    install = "icml26 @ git+https://github.com/somebody/else@old"
    subprocess.check_call([sys.executable, "-m", "pip", "install", "-q", install])
"""

LESSON = f'''# %% [markdown]
# # A small lesson
#
# [Open in Colab](https://colab.research.google.com/github/somebody/else/blob/old/notebooks/01_small.ipynb)

# %% tags=["setup", "hide-input"]
{SETUP}
# %% [markdown]
# Double the number 21.

# %% tags=["exercise"]
answer = None  # your answer

# %% tags=["solution", "hide-cell"]
answer = 42

# %% tags=["check"]
print("not answered yet" if answer is None else "✓ right" if answer == 42 else "✗ not yet")
'''

CONFIG = """\
repository:
  url: https://github.com/example-org/a-small-book
  branch: main
"""

PROJECT = """\
[project]
name = "icml26"

[project.urls]
Repository = "https://github.com/somebody/else"

[project.optional-dependencies]
small = ["numpy"]
"""


@pytest.fixture
def small_book(tmp_path: Path) -> Path:
    """A folder with one chapter, 01_small, not executed; its files name an old address of the repository."""
    root = tmp_path / "book"
    (root / "notebooks").mkdir(parents=True)
    (root / "book").mkdir()
    (root / "_config.yml").write_text(CONFIG, encoding="utf-8")
    (root / "pyproject.toml").write_text(PROJECT, encoding="utf-8")
    (root / "notebooks" / "01_small.py").write_text(LESSON, encoding="utf-8")
    experiments = LESSON.split("# %% [markdown]\n# Double")[0].replace("01_small", "01_small_experiments")
    (root / "notebooks" / "01_small_experiments.py").write_text(experiments, encoding="utf-8")
    for name in ("conftest.py", "sanitize.cfg"):
        shutil.copy(ROOT / "notebooks" / name, root / "notebooks")
    return root


@pytest.fixture(scope="session")
def book_html(tmp_path_factory):
    """The folder of the built pages, made from the working copy with warnings as errors.

    Workers of one session share the build: the first one makes it, the others wait for the lock.
    """
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    out, html = shared / "book", shared / "book" / "_build" / "html"
    with open(shared / "book.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (out / "log").exists():
            out.mkdir()
            command = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()"]
            command += ["build", str(ROOT), "--path-output", str(out), "-W", "-n", "--keep-going"]
            environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
            result = subprocess.run(
                command, env=environment, cwd=out, capture_output=True, text=True, check=False, timeout=600
            )
            (out / "log").write_text(f"{result.returncode}\n{result.stdout}\n{result.stderr}")
    code, _, log = (out / "log").read_text().partition("\n")
    if code != "0":
        wrong = [line for line in log.splitlines() if "WARNING" in line or "ERROR" in line]
        pytest.fail(
            "the book does not build without warnings:\n" + "\n".join(wrong or log.splitlines()[-20:])
        )
    return html
