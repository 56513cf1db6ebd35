"""Run by `compile_check` in the environment that holds Triton 3.6.0; imports nothing of this package.

Arguments: a JSON file with the job, and where to write the JSON result.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

INTEGERS = re.compile(r"[iu](8|16|32|64)")


def load(source: str, name: str, folder: Path) -> Any:
    """The kernel out of its isolated source. It must be a file: Triton reads the source again."""
    file = folder / f"{name}_source.py"
    file.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return getattr(module, name)


def specialisations(signature: dict[str, str]) -> list[dict[tuple[int, ...], list[list[Any]]]]:
    """Attributes as the launcher would set them: pointers aligned, integers divisible by 16 or not."""
    pointers = [i for i, text in enumerate(signature.values()) if text.startswith("*")]
    integers = [i for i, text in enumerate(signature.values()) if INTEGERS.fullmatch(text)]
    chosen = [pointers, pointers + integers] if integers else [pointers]
    return [{(i,): [["tt.divisibility", 16]] for i in some} for some in chosen]


def usage(cubin: bytes, folder: Path) -> tuple[int | None, int | None]:
    """Registers, and bytes of stack and local memory, of a thread, as cuobjdump reads them."""
    import triton

    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    if not tool.exists():
        return None, None
    file = folder / "kernel.cubin"
    file.write_bytes(cubin)
    done = subprocess.run([tool, "-res-usage", file], capture_output=True, text=True, check=False)
    fields = {name: int(number) for name, number in re.findall(r"\b(REG|STACK|LOCAL):(\d+)", done.stdout)}
    if "REG" not in fields:
        return None, None
    return fields["REG"], fields.get("STACK", 0) + fields.get("LOCAL", 0)


def main(task: Path, answer: Path) -> None:
    import triton
    import triton.language as tl
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, CompilationError

    job = json.loads(task.read_text())
    dtypes = {str(value): value for value in vars(tl).values() if isinstance(value, tl.dtype)}
    constants = {
        name: dtypes[value["dtype"]] if isinstance(value, dict) else value
        for name, value in job["constexprs"].items()
    }
    result: dict[str, Any] = {"shared_bytes": 0, "registers": None, "local_bytes": None}
    result |= {"tensor_core_ops": 0, "dots": 0}
    with tempfile.TemporaryDirectory() as folder:
        try:
            kernel = load(job["source"], job["kernel"], Path(folder))
            for attributes in specialisations(job["signature"]):
                made = triton.compile(
                    ASTSource(kernel, job["signature"], constants, attributes),
                    target=GPUTarget("cuda", job["capability"], 32),
                    options=job["options"],
                )
                registers, local = usage(made.asm["cubin"], Path(folder))
                matrix = len(re.findall(r"\b(?:mma|wmma|wgmma|tcgen05)[.]", made.asm["ptx"]))
                seen = {"shared_bytes": made.metadata.shared, "registers": registers, "local_bytes": local}
                seen |= {"tensor_core_ops": matrix, "dots": made.asm["ttir"].count("tt.dot ")}
                for name, number in seen.items():
                    result[name] = max(n for n in (result[name], number, 0) if n is not None)
        except CompilationError as error:
            # The innermost cause names what is wrong; the outer ones say from where it was called.
            causes = [str(error).strip()]
            inner = error.__cause__
            while inner is not None:
                causes.append(str(inner).strip())
                inner = inner.__cause__
            result = {"error": "\n".join(dict.fromkeys(causes))}
        except Exception as error:
            # The assembler's message ends with a dump of the program: the first lines say it all.
            lines = str(error).strip().splitlines()[:12]
            result = {"error": f"{type(error).__name__}: " + "\n".join(lines)}
    half = answer.with_suffix(".part")
    half.write_text(json.dumps(result))
    os.replace(half, answer)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
