"""Every test runs with the shapes in the signatures enforced."""

from jaxtyping import install_import_hook

# Before anything imports icml26: the hook rewrites modules as they are imported.
install_import_hook("icml26", "beartype.beartype")
