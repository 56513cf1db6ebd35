"""One build of the book for all tests that look at its pages."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


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
