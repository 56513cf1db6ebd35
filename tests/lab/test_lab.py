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


@pytest.mark.parametrize("name", sorted(THERE - {"__init__"}))
def test_no_file_imports_torch_by_itself(name):
    assert not _fresh(f"import icml26.lab.{name}\nprint(json.dumps('torch' in sys.modules))")


@pytest.mark.parametrize("name", sorted(lab.__all__))
def test_every_name_is_there(name):
    home = lab._NAMES.get(name, name)
    assert home in THERE
    assert getattr(lab, name) is not None
    assert name in dir(lab)


@pytest.mark.parametrize(
    "name", sorted(name for name, home in lab._NAMES.items() if name == home and name in THERE)
)
def test_a_function_keeps_its_name_beside_its_file(name):
    """Whoever imports the file first, `lab.race` stays the function."""
    assert _fresh(
        f"import icml26.lab.{name}\nfrom icml26 import lab\nfrom icml26.lab import {name} as other\n"
        f"from icml26.lab.{name} import {name} as third\n"
        f"print(json.dumps(callable(lab.{name}) and lab.{name} is other is third))"
    )
    assert callable(getattr(lab, name))


def test_a_wrong_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'rcae'"):
        _ = lab.rcae
