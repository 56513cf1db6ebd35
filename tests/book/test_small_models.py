"""The commands that train the small models, driven for two steps with everything they do."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nano", "pico"])
def test_two_steps_write_a_model_and_its_card(name, tmp_path, monkeypatch):
    from icml26.language import pico, pretraining, wiki

    texts = wiki.split("train")  # from the usual cache, before it is moved
    monkeypatch.setattr(wiki, "split", lambda part: texts[:5])
    monkeypatch.setenv("ICML26_CACHE", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(SCRIPTS))
    few = {"nano_measures": pretraining.nano_measures, "pico_measures": pico.pico_measures}
    monkeypatch.setattr(pretraining, "nano_measures", lambda m, t: few["nano_measures"](m, t, n=2, blocks_of=1))
    monkeypatch.setattr(pico, "pico_measures", lambda m, t: few["pico_measures"](m, t, n=2, blocks_of=1))
    module = importlib.import_module(f"train_{name}")
    try:
        assert module.main(["--steps", "2", "--seed", "3", "--out", str(tmp_path / name)]) == 0
    finally:
        for script in (f"train_{name}", "small_models", "commands"):
            sys.modules.pop(script, None)
    card = json.loads((tmp_path / name / "card.json").read_text())
    assert card["steps"] == 2
    assert card["seed"] == 3
    assert len(card["first_losses"]) == 2
    assert (tmp_path / name / "model.safetensors").stat().st_size == pytest.approx(2 * card["parameters"], rel=0.02)
    assert [path.name.rsplit("-", 1)[0] for path in (tmp_path / "cache").glob("train-*")] == [f"train-{name}-3-2"]
