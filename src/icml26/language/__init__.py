"""Language models and texts that need no network, and what chapters do with them.

- Models: `load_lm(name)`, `available_lms()`, `embed(texts)`; `python -m icml26.language.fetch` brings them.
- Texts: `wiki`, `texts` (speeches, plays, code, news), `blocks`, `perplexity`, `compare`.
- Skills with exact answers: `skills`, `evaluate`, `health`; rows of role-play and invented people: `roles`.
- Interventions: `temporarily`, `freeze`, `clone_state`; generation: `chat`; accounting: `cost`; GPU core: `masked_kl`.

Everything loads on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from icml26.language import chat as chat_module
    from icml26.language import cost, roles, skills, texts, wiki
