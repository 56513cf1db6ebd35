"""The package as a whole: light, lazy, and each name means one thing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from icml26 import lab

SOURCE = Path(lab.__file__).parent
THERE = {path.stem for path in SOURCE.glob("*.py")}


def _fresh(code):
    """Run code in a new interpreter, without the tests' import hook; return what it prints as JSON."""
    root = str(SOURCE.parents[1])
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {root!r})\nimport json, time\n{code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_import_is_light():
    seconds, heavy = _fresh(
        "start = time.process_time()\nfrom icml26 import lab\nused = time.process_time() - start\n"
        "print(json.dumps([used, sorted({'torch', 'numpy', 'pandas', 'matplotlib'} & set(sys.modules))]))"
    )
    assert heavy == []
    assert seconds < 0.3


# Their signatures hold tensors.
WITH_TORCH = {"train", "checkpoint", "kernels"}


def test_no_other_file_imports_torch_by_itself():
    assert (
        _fresh(
            f"import importlib\nguilty = []\nfor name in {sorted(THERE - WITH_TORCH - {'__init__'})}:\n"
            "    importlib.import_module('icml26.lab.' + name)\n"
            "    guilty += [name] if 'torch' in sys.modules else []\n"
            "print(json.dumps(guilty))"
        )
        == []
    )


@pytest.mark.parametrize("name", sorted(lab.__all__))
def test_every_name_is_there(name):
    home = lab._NAMES.get(name, name)
    assert home in THERE
    assert getattr(lab, name) is not None
    assert name in dir(lab)


def test_a_function_keeps_its_name_beside_its_file():
    """Whoever imports the file first, `lab.race` stays the function."""
    names = sorted(name for name, home in lab._NAMES.items() if name == home and name in THERE)
    assert {"race", "figure", "progress", "say"} <= set(names)
    forms = {
        "import icml26.lab.{0}": names,
        "from icml26.lab.{0} import {0}": ["progress", "say"],
        "from icml26 import lab; lab.{0}": ["progress", "say"],
    }
    for first, names in forms.items():
        lines = "\n".join(first.format(name) for name in names)
        wrong = _fresh(
            f"{lines}\nimport importlib\nfrom icml26 import lab\n"
            f"files = {{name: importlib.import_module('icml26.lab.' + name) for name in {names}}}\n"
            "wrong = [n for n, f in files.items() if getattr(lab, n) is not getattr(f, n)]\n"
            "wrong += [n for n in files if not callable(getattr(lab, n))]\n"
            "print(json.dumps(wrong))"
        )
        assert wrong == []


def test_a_wrong_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'rcae'"):
        _ = lab.rcae
