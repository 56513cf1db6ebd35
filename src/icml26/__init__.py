"""ICML 2026 in Running Code: nineteen papers as executable notebooks over one tested package.

`import icml26` needs only the light core. A chapter lives in `icml26.<slug>` and asks for its extra
with one clear message when a package is missing.
"""

__version__: str
__all__ = ["__version__"]


def __getattr__(name: str) -> str:
    """`__version__`, read when it is asked for: `importlib.metadata` takes half of the time of an import."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import PackageNotFoundError, version

    try:
        found = version("icml26")
    except PackageNotFoundError:  # a bare source tree on the path
        found = "0+source"
    globals()["__version__"] = found
    return found
