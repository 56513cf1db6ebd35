"""Execute the notebooks' text sources and store what they show: `make notebooks [CHAPTER=09]`.

Each `.py` file runs in a fresh kernel in the CPU profile, one thread, sliders as static HTML: the same
settings under which nbval re-runs and compares it. A notebook that fails leaves the stored file as it was.
Two runs write the same bytes, apart from times marked with a stop-watch and pictures of other matplotlib
builds. When both notebooks of a chapter ran, the ledger that they wrote is copied to `book/ledgers/`.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from pathlib import Path

from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

import commands
import ledgers
import pairs

ENVIRONMENT = {
    "ICML26_STATIC": "1",
    "ICML26_PROFILE": "cpu",
    "CUDA_VISIBLE_DEVICES": "",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
CPU_SECONDS = 45.0  # a notebook's budget, on one thread
CELL_TIMEOUT = 300


def run(notebook: NotebookNode, folder: Path, *, timeout: int = CELL_TIMEOUT) -> NotebookNode:
    """Execute a notebook in a fresh kernel in `folder` and clean it.

    Raises CellExecutionError, CellTimeoutError or DeadKernelError where a cell fails.
    """
    client = NotebookClient(
        notebook,
        timeout=timeout,
        kernel_name="python3",
        record_timing=False,
        coalesce_streams=True,  # how prints are split into messages depends on the machine's load
        resources={"metadata": {"path": str(folder)}},
    )
    client.execute(env={**os.environ, **ENVIRONMENT})
    return pairs.clean(client.nb)


def execute(source: Path, target: Path | None = None, *, timeout: int = CELL_TIMEOUT) -> tuple[float, float]:
    """Execute one py:percent file and write the .ipynb (beside it, when no target is given).

    Returns the wall and the CPU seconds, kernel start included. When a cell fails the target is not touched.
    """
    target = target or source.with_suffix(".ipynb")
    start, cpu = time.perf_counter(), _child_seconds()
    notebook = run(pairs.read_source(source), source.parent, timeout=timeout)
    pairs.write_notebook(notebook, target)
    return time.perf_counter() - start, _child_seconds() - cpu


def _child_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def execute_chapter(name: str, sources: list[Path], root: Path) -> bool:
    """Execute the notebooks of one chapter and adopt the ledger they wrote; False when one failed."""
    ledger = root / "_build" / "ledgers" / f"{name}.cpu.json"
    ledger.unlink(missing_ok=True)  # an old row must not outlive the cell that wrote it
    for source in sources:
        print(f"{source.name} …", flush=True)
        try:
            wall, cpu = execute(source)
        except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            print(f"{source.name}: failed, the stored notebook stays as it was\n{error}", flush=True)
            return False
        over = f"   over its budget of {CPU_SECONDS:.0f} CPU s" if cpu > CPU_SECONDS else ""
        print(f"{source.name}: {wall:.1f} s, {cpu:.1f} CPU s{over}", flush=True)
    if ledger.exists():
        print(f"ledger -> {ledgers.adopt(name, root).relative_to(root)}")
    return True


def main(arguments: list[str] | None = None) -> int:
    options = commands.options(__doc__)
    options.add_argument("--chapter", default="", help="number, slug or NN_slug of one chapter; all without it")
    parsed = options.parse_args(arguments)
    chosen = ledgers.choose(list(pairs.chapters(parsed.root)), parsed.chapter)
    sources = pairs.chapters(parsed.root)
    failed = [name for name in chosen if not execute_chapter(name, sources[name], parsed.root)]
    print(f"{len(chosen) - len(failed)} chapter(s) executed" + (f", failed: {', '.join(failed)}" if failed else ""))
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
