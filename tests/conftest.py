"""Every test runs with the shapes in the signatures enforced."""

import os

from hypothesis import settings
from jaxtyping import install_import_hook

# Before anything imports icml26: the hook rewrites modules as they are imported.
install_import_hook("icml26", "beartype.beartype")

# Seconds are the budget's business (`--durations`): a deadline for each example fails on a busy machine.
settings.register_profile("desk", deadline=None)
# CI tries the same examples every time: a new counterexample is found at a desk, not in somebody's unrelated change.
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "desk")
