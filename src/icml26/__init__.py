"""ICML 2026 in Running Code: nineteen papers as executable notebooks over one tested package.

`import icml26` needs only the light core. A chapter lives in `icml26.<slug>` and asks for its extra
with one clear message when a package is missing.
"""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("icml26")
except PackageNotFoundError:  # a bare source tree on the path
    __version__ = "0+source"

__all__ = ["__version__"]
