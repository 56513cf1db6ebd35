"""The layout of the repository: sizes, the direction of dependencies, a light import, readable files."""

import ast
import importlib.metadata
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

import pairs

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "icml26"
MB = 1_000_000

# Which shared part may import which. Chapters may import all of these, and no other chapter.
SHARED = {"lab": set(), "data": {"lab"}, "language": {"lab", "data"}}

FILE_LIMIT = 2 * MB
# Named exceptions. MathJax is vendored as one file, so that pages need no network.
LARGE_FILES = {
    "book/_static/mathjax/tex-svg-full.js": 3 * MB,
    "src/icml26/language/assets/nano/model.safetensors": 8.5 * MB,  # 4.23 million parameters in float16
}
CHAPTER_LIMIT = 8 * MB
PACKAGE_LIMIT, REPOSITORY_LIMIT = 50 * MB, 120 * MB
LONG, TOO_LONG = 400, 450  # lines; past the second a file wants splitting by idea


def repository_files(root: Path = ROOT) -> list[Path]:
    """The files that are or would be committed."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    if shutil.which("git") and (root / ".git").exists():
        listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
        return [root / name for name in listed.split("\0") if name and (root / name).is_file()]
    hidden = {".venv", "_build", "__pycache__", "shared", ".git"}
    return [p for p in root.rglob("*") if p.is_file() and not hidden & set(p.relative_to(root).parts)]


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def chapters() -> list[str]:
    """The chapters' packages."""
    found = [p.parent.name for p in sorted(PACKAGE.glob("*/__init__.py"))]
    return [name for name in found if name not in SHARED]


def test_no_file_is_too_large() -> None:
    large = {_name(p): p.stat().st_size for p in repository_files()}
    assert {n: s for n, s in large.items() if s > LARGE_FILES.get(n, FILE_LIMIT)} == {}
    assert set(LARGE_FILES) <= set(large), "an exception that nothing needs"


def test_chapter_package_and_repository_stay_small() -> None:
    sizes = {p: p.stat().st_size for p in repository_files()}
    for chapter in chapters():
        own = [s for p, s in sizes.items() if (PACKAGE / chapter) in p.parents or f"_{chapter}" in p.stem]
        assert sum(own) <= CHAPTER_LIMIT, f"{chapter}: {sum(own) / MB:.1f} MB"
    package = sum(s for p, s in sizes.items() if PACKAGE in p.parents)
    assert package <= PACKAGE_LIMIT
    assert sum(sizes.values()) <= REPOSITORY_LIMIT


def test_files_have_a_readable_length() -> None:
    """Reported from 400 lines, refused over 450."""
    code = [p for p in repository_files() if p.suffix == ".py" and "notebooks" not in p.parts]
    lengths = {_name(p): len(p.read_text(encoding="utf-8").splitlines()) for p in code}
    for name, lines in sorted(lengths.items(), key=lambda item: -item[1]):
        if lines > LONG:
            warnings.warn(f"{name} has {lines} lines: split it by idea?", stacklevel=1)
    assert {name: lines for name, lines in lengths.items() if lines > TOO_LONG} == {}


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """Every icml26 module that a file imports, with its line; relative imports resolved."""
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    inside = path.relative_to(ROOT / "src").with_suffix("").parts if PACKAGE in path.parents else ()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join([*inside[: len(inside) - node.level], *filter(None, [node.module])])
            names = [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from ((node.lineno, name) for name in names if name.split(".")[0] == "icml26")


def forbidden(own: str, name: str, known: list[str]) -> bool:
    """Whether code in icml26.<own> ("" for the package itself) may not import the module `name`."""
    parts = name.split(".")
    part = parts[1] if len(parts) > 1 else ""
    if part not in known:  # icml26 itself, or one of its names
        return False
    return part != own and part not in SHARED.get(own, set() if own == "" else set(SHARED))


def test_dependencies_point_one_way() -> None:
    known = [*SHARED, *chapters()]
    wrong = []
    for path in sorted(PACKAGE.rglob("*.py")):
        own = path.relative_to(PACKAGE).parts[0] if path.parent != PACKAGE else ""
        found = [(line, name) for line, name in imported(path) if forbidden(own, name, known)]
        wrong += [f"{_name(path)}:{line} imports {name}" for line, name in found]
    assert wrong == []


def test_a_notebook_imports_its_own_chapter_and_what_is_shared() -> None:
    wrong = []
    for name, sources in pairs.chapters(ROOT).items():
        others = [chapter for chapter in chapters() if chapter != name[3:]]
        for source in sources:
            found = [f"{source.name}:{line} imports {n}" for line, n in imported(source)]
            wrong += [line for line in found if line.split("icml26.")[-1].split(".")[0] in others]
    assert wrong == []


@pytest.mark.parametrize(
    ("own", "name", "refused"),
    [
        ("sinq", "icml26.crasp.bounds", True),
        ("sinq", "icml26.lab.ledger", False),
        ("sinq", "icml26.language.model", False),
        ("sinq", "icml26.sinq.kernels", False),
        ("lab", "icml26.data.frames", True),
        ("lab", "icml26.sinq", True),
        ("data", "icml26.lab", False),
        ("data", "icml26.language", True),
        ("language", "icml26.data", False),
        ("", "icml26.lab", True),
        ("sinq", "icml26.__version__", False),
    ],
)
def test_the_rule_of_direction(own: str, name: str, refused: bool) -> None:
    assert forbidden(own, name, [*SHARED, "sinq", "crasp"]) == refused


def test_relative_imports_are_resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "src/icml26"
    (package / "sinq").mkdir(parents=True)
    path = package / "sinq/kernels.py"
    path.write_text("from ..crasp import bounds\nfrom . import peers\nimport numpy\n")
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", package)
    assert list(imported(path)) == [(1, "icml26.crasp.bounds"), (2, "icml26.sinq.peers")]


@pytest.mark.parametrize("module", ["icml26", "icml26.lab"])
def test_the_import_is_light(module: str) -> None:
    heavy = ["torch", "matplotlib", "pandas", "scipy", "sklearn", "pennylane", "triton"]
    code = f"import sys, {module}; print([name for name in {heavy} if name in sys.modules])"
    path = {"PYTHONPATH": str(ROOT / "src"), "PATH": ""}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=path)
    assert ran.stdout.strip() == "[]"


def test_notebooks_read_nothing_but_the_package() -> None:
    """On Colab only the package is installed: no path of the repository may occur in a cell."""
    wrong = []
    for sources in pairs.chapters(ROOT).values():
        for source in sources:
            for number, cell in enumerate(pairs.read_source(source).cells):
                places = ("src/icml26", "../", "book/", "scripts/", "tests/", "constraints")
                if cell.cell_type == "code":
                    wrong += [f"{source.name}: cell {number}: {p}" for p in places if p in cell.source]
    assert wrong == []


def test_the_package_has_its_type_marker_and_version() -> None:
    assert (PACKAGE / "py.typed").exists()
    try:
        version = importlib.metadata.version("icml26")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("the package is on the path but not installed")
    assert f'version = "{version}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_a_checkout_has_unix_line_ends_everywhere() -> None:
    lines = (ROOT / ".gitattributes").read_text(encoding="utf-8").splitlines()
    assert "* text=auto eol=lf" in lines
