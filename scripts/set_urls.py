"""Write the public repository's address wherever it occurs: `make urls`, or `--check` to see whether all
agree.

The one place that says it is `_config.yml`: `repository.url` and `repository.branch`. From there it goes
into every notebook's badge line and set-up cell (in the `.py` and the `.ipynb`), into README, CONTRIBUTING
and the prose pages, into pyproject.toml and into CITATION.cff. Workshop notebooks are generated: `make
workshop` after a change.
"""

from __future__ import annotations

import re
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import yaml

import commands
import pairs

COLAB = "https://colab.research.google.com/github"
BADGE = re.compile(r"\[[^\]\n]*Open in Colab[^\]\n]*\](?:\([^)\n]*\)\])?\((?P<link>[^)\n]*)\)")
INSTALL = re.compile(r"\"icml26(?:\[[^\]\"]*\])? @ git\+[^\"]*\"")


@dataclass(frozen=True)
class Repository:
    """Where the public reads the book: https://github.com/OWNER/NAME, and the branch."""

    url: str
    branch: str

    def __post_init__(self) -> None:
        if not re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+", self.url) or self.url.endswith((".git", "/")):
            raise ValueError(f"repository.url: got {self.url!r}, expected https://github.com/OWNER/NAME")
        if not re.fullmatch(r"[\w.-]+", self.branch):
            raise ValueError(f"repository.branch: got {self.branch!r}, expected a name without slashes or spaces")

    @property
    def path(self) -> str:
        """OWNER/NAME."""
        return self.url.removeprefix("https://github.com/")

    def colab(self, file: str) -> str:
        """The address under which Colab opens a notebook of the repository, e.g. "notebooks/03_x.ipynb"."""
        return f"{COLAB}/{self.path}/blob/{self.branch}/{file}"


def repository(root: Path = commands.ROOT) -> Repository:
    """What _config.yml says. Raises ValueError where it does not name a GitHub repository and a branch."""
    config = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    found = config.get("repository") or {}
    return Repository(str(found.get("url", "")), str(found.get("branch", "")))


def requirement(root: Path, slug: str, where: Repository) -> str:
    """What a chapter's set-up cell installs: the package, with the chapter's extra where it has one."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extra = f"[{slug}]" if slug in project.get("optional-dependencies", {}) else ""
    return f"icml26{extra} @ git+{where.url}@{where.branch}"


def set_notebook(text: str, file: str, install: str, where: Repository) -> str:
    """The badge line and the install line of a notebook (or of one cell) with the address that holds."""
    badge = f"[Open in Colab]({where.colab(file)})"
    return INSTALL.sub(f'"{install}"', BADGE.sub(badge, text))


def set_prose(text: str, old: set[str], where: Repository) -> str:
    """A page's links to the repository (under any old address) and to Colab with the address that holds."""
    text = re.sub(
        rf"{re.escape(COLAB)}/[^/\s]+/[^/\s]+/blob/[^/\s]+/",
        f"{COLAB}/{where.path}/blob/{where.branch}/",
        text,
    )
    for url in sorted(old | {where.url}, key=len, reverse=True):
        own = rf"git\+{re.escape(url)}(?![\w-])[^\s\"'`)]*"  # others' requirements are left alone
        text = re.sub(own, f"git+{where.url}@{where.branch}", text)
        text = re.sub(rf"{re.escape(url)}(?![\w-])", where.url, text)
    return re.sub(rf"({re.escape(where.url)}/(?:blob|tree|raw|edit)/)[^/\s)\"]+", rf"\g<1>{where.branch}", text)


def known_addresses(root: Path) -> set[str]:
    """The addresses that pyproject.toml and CITATION.cff give now: what set_prose looks for."""
    found = set()
    for name, pattern in (
        ("pyproject.toml", r'^Repository = "([^"]+)"'),
        ("CITATION.cff", r'^repository-code: "?([^"\s]+)'),
    ):
        if (root / name).exists():
            found |= set(re.findall(pattern, (root / name).read_text(encoding="utf-8"), flags=re.MULTILINE))
    return found


def texts(root: Path) -> dict[Path, str]:
    """Every file that names the repository, as it should read."""
    where = repository(root)
    old = known_addresses(root)
    wanted: dict[Path, str] = {}
    for name, sources in pairs.chapters(root).items():
        install = requirement(root, name[3:], where)
        for source in sources:
            file = f"notebooks/{source.stem}.ipynb"
            wanted[source] = set_notebook(source.read_text(encoding="utf-8"), file, install, where)
            stored = source.with_suffix(".ipynb")
            if stored.exists():
                wanted[stored] = _stored(stored, file, install, where)
    pages = [root / name for name in ("README.md", "CONTRIBUTING.md", "pyproject.toml", "CITATION.cff")]
    for page in [*pages, *sorted((root / "book").rglob("*.md"))]:
        if page.exists():
            wanted[page] = set_prose(page.read_text(encoding="utf-8"), old, where)
    return wanted


def _stored(path: Path, file: str, install: str, where: Repository) -> str:
    notebook = pairs.read_notebook(path)
    before = [cell.source for cell in notebook.cells]
    for cell in notebook.cells:
        cell.source = set_notebook(cell.source, file, install, where)
    if [cell.source for cell in notebook.cells] == before:
        return path.read_text(encoding="utf-8")
    pairs.assign_ids(notebook.cells)
    return pairs.dump(notebook)


def missing(root: Path) -> list[str]:
    """Notebooks without a badge in their first Markdown cell or an install line in their first code cell."""
    found = []
    for sources in pairs.chapters(root).values():
        for source in sources:
            cells = pairs.read_source(source).cells
            first = next((cell for cell in cells if cell.cell_type == "markdown"), None)
            setup = next((cell for cell in cells if cell.cell_type == "code"), None)
            if first is None or not BADGE.search(first.source):
                found.append(f"notebooks/{source.name}: no [Open in Colab](…) line in the first Markdown cell")
            if setup is None or not INSTALL.search(setup.source) or "setup" not in pairs.tags(setup):
                found.append(f"notebooks/{source.name}: the first code cell is not the set-up cell")
    return found


def main(arguments: list[str] | None = None) -> int:
    options = commands.options(__doc__, check=True)
    parsed = options.parse_args(arguments)
    found = missing(parsed.root)
    for line in found:
        print(line)
    stale = {p: text for p, text in texts(parsed.root).items() if p.read_text(encoding="utf-8") != text}
    for path, text in stale.items():
        print(f"{path.relative_to(parsed.root)}: " + ("names another address" if parsed.check else "written"))
        if not parsed.check:
            path.write_text(text, encoding="utf-8", newline="\n")
    print("run `make urls`" if stale and parsed.check else f"{repository(parsed.root).url}: every file agrees")
    return bool(found) or bool(stale and parsed.check)


if __name__ == "__main__":
    sys.exit(main())
