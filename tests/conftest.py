"""Every test runs with the shapes in the signatures enforced."""

import os

from hypothesis import settings
from jaxtyping import install_import_hook

# Before anything imports icml26: the hook rewrites modules as they are imported.
install_import_hook("icml26", "beartype.beartype")

# CI tries the same examples every time: a new counterexample is found at a desk, not in somebody's unrelated change.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")
