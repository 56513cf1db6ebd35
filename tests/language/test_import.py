"""What importing the package costs, in an interpreter of its own."""

import os
import subprocess
import sys
from pathlib import Path

import icml26
import icml26.language

CODE = """
import sys, time
before, start = set(sys.modules), time.process_time()
import icml26.language
print(time.process_time() - start)
print(*sorted(set(sys.modules) - before))
"""
HEAVY = {"torch", "transformers", "gensim", "gguf", "tokenizers", "numpy", "scipy", "importlib.metadata"}


def test_it_imports_nothing_heavy_and_is_quick():
    path = os.pathsep.join([str(Path(icml26.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", CODE], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    seconds, names = done.stdout.splitlines()
    assert "icml26.language" in names.split()
    assert not HEAVY & set(names.split())
    assert float(seconds) < 0.3  # of CPU time, several times what it takes


def test_the_version_is_there_when_asked_for():
    assert icml26.__version__ == icml26.__version__ != ""
    assert not hasattr(icml26, "version")
