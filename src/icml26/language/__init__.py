"""Language models and texts that need no network, and what chapters do with them.

| for | look in |
| --- | --- |
| models by name, and bringing them | `load_lm`, `available_lms`; `python -m icml26.language.fetch` |
| sentence embeddings | `embed` |
| texts | `wiki`, `texts` (speeches, plays, code, news), `blocks` |
| how well a model does | `evaluate` on `skills`, `perplexity.perplexity`, `health` |
| role-play, invented people, abstention | `roles`, `role_check` |
| interventions that leave no trace | `temporarily`, `clone_state`, `freeze` |
| what a model says, and what that costs | `chat.chat`, `generate`, `cost.counting` |
| divergence of two models' outputs, on a GPU too | `masked_kl` |
| how the two small models were made | `pretraining`, `tokenizer`, `small_skills` |

Everything loads on first use: importing this package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from icml26.language.chat import generate
    from icml26.language.embeddings import embed
    from icml26.language.evaluation import evaluate
    from icml26.language.interventions import clone_state, freeze, temporarily
    from icml26.language.kernels import masked_kl
    from icml26.language.models import available_lms, load_lm

__all__ = [
    "available_lms",
    "clone_state",
    "embed",
    "evaluate",
    "freeze",
    "generate",
    "load_lm",
    "masked_kl",
    "temporarily",
]

# Functions that share their module's name (`blocks.blocks`, `chat.chat`, …) are imported from it.
_HOME = {
    "available_lms": "models",
    "clone_state": "interventions",
    "embed": "embeddings",
    "evaluate": "evaluation",
    "freeze": "interventions",
    "generate": "chat",
    "load_lm": "models",
    "masked_kl": "kernels",
    "temporarily": "interventions",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
