"""The toolchain `triton`: a separate process compiles a Triton function to PTX and runs Triton's ptxas on it.

No GPU is needed. The user's Python file runs in that process, in an empty folder, with the rights of the user: naming a
`.py` as a source is the permission. Names of folders of this machine are removed from the line table.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import importlib.metadata
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.base import workers
from lab.base.errors import CompileError, MissingToolError
from lab.base.files import scratch
from lab.isa.ptx.module import read_ptx
from lab.toolchain import locate
from lab.toolchain.base import Build, CompiledLaunch, CompileRequest, can_target, check_not_killed, is_version
from lab.toolchain.cubin.resources import resources
from lab.toolchain.triton import worker
from lab.toolchain.triton.source import TritonSource, restored

INSTALL = "python -m pip install triton"
PYTHON_VARIABLE = "LAB_TRITON_PYTHON"
"""Names the Python of another environment that has Triton."""
TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True)
class Triton:
    """The toolchain, made by `find_triton`. Picklable. Its requests are those of `TritonSource`.

    The hidden pointers of a build's `launch` are null, except that the first points to global memory if the function
    needs it, for the tensor descriptors that it creates.

    Attributes:
        python: The Python that has Triton.
        version: Triton's version.
    """

    python: Path
    version: str

    @property
    def name(self) -> str:
        """`triton`."""
        return "triton"

    @property
    def architectures(self) -> tuple[str, ...]:
        """Empty: Triton does not list them."""
        return ()

    @property
    def identity(self) -> str:
        """Empty: Triton's wheel has everything that determines its output."""
        return _helpers_digest()

    def supports(self, arch: str) -> bool:
        """Return whether `arch` is a valid target name."""
        return can_target(arch, ())

    def compile(self, request: CompileRequest) -> Build:
        """Compile a request.

        Raises:
            CompileError: The file or the function is wrong, or compiling it takes longer than `TIMEOUT_S`.
            MissingToolError: Triton cannot run on this machine.
        """
        started = time.perf_counter()
        source = restored(request)
        command = f"triton.compile({source.file}:{source.function}, {request.arch}, num_warps={source.num_warps})"
        with scratch("lab-triton-") as empty:
            folder = empty.resolve()
            answer, log = _answer(self.python, source, request.arch, folder, command)
        [entry] = [kernel for kernel in read_ptx(answer["ptx"], request.name).kernels if kernel.name == answer["name"]]
        cubin = base64.b64decode(answer["cubin"])
        return Build(
            ptx=answer["ptx"],
            cubin=cubin,
            resources=resources(log, cubin),
            log=log,
            command=command,
            toolchain=self.name,
            version=self.version,
            arch=request.arch,
            seconds=time.perf_counter() - started,
            symbols={source.function: answer["name"]},
            launch=CompiledLaunch(
                threads=entry.directives.get("reqntid", (32 * source.num_warps,))[0],
                dynamic_shared_bytes=answer["shared"],
                cluster=source.num_ctas,
                hidden_pointers=len(entry.parameters) - len(source.signature) + len(answer["absent"]),
                scratch_bytes=answer["scratch"],
                absent_arguments=tuple(answer["absent"]),
            ),
        )


def find_triton(prefix: str = "") -> Triton | None:
    """Return Triton, from `$LAB_TRITON_PYTHON` or this environment, if its version begins with `prefix`, or None."""
    configured = os.environ.get(PYTHON_VARIABLE)
    python = Path(configured or sys.executable)
    version = _version_elsewhere(python) if configured else _version_here()
    return Triton(python, version) if version and is_version(version, prefix) else None


def _version_here() -> str | None:
    try:
        return importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        return None


@functools.cache
def _version_elsewhere(python: Path) -> str | None:
    words = ("-P", "-c", "import importlib.metadata as m; print(m.version('triton'))")
    output = locate.tool_output(python, *words)
    return output.strip() if output else None


@functools.cache
def _helpers_digest() -> str:
    return hashlib.sha256(Path(worker.__file__).with_name("helpers.py").read_bytes()).hexdigest()[:12]


def _answer(python: Path, source: TritonSource, arch: str, folder: Path, command: str) -> tuple[dict[str, Any], str]:
    """Run the worker; return its answer and what it printed."""
    root = folder / "source"  # apart from the question, whose names a module may have
    file = root / (source.path or source.file)
    for path, text in ((file, source.text), *((root / name, text) for name, text in source.included)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for package in {parent for path in root.rglob("*.py") for parent in path.parents if root in parent.parents}:
        (package / "__init__.py").touch()  # without the user's, of which nothing is imported
    request = {
        "root": str(root),
        "file": str(file),
        "function": source.function,
        "signature": source.signature,
        "constants": source.constants,
        "divisible": source.divisible,
        "ones": source.ones,
        "tuples": source.tuples,
        "capability": int("".join(filter(str.isdigit, arch))),
        "num_warps": source.num_warps,
        "num_stages": source.num_stages,
        "num_ctas": source.num_ctas,
    }
    question, answer = folder / "question.json", folder / "answer.json"
    question.write_text(json.dumps(request), encoding="utf-8")
    environment = {**workers.environment(), "TRITON_CACHE_DIR": str(folder / "cache"), "HOME": str(folder)}
    environment["TRITON_DUMP_PTXAS_LOG"] = "1"  # on standard output; it has the spills
    environment.pop("PYTHONPATH", None)  # the user's file imports what is installed, and nothing of lab's
    try:
        run = subprocess.run(
            [str(python), "-P", str(worker.__file__), str(question), str(answer)],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
            check=False,
        )
    except OSError as error:
        raise MissingToolError(f"cannot run Triton's Python ({error}); install Triton: {INSTALL}") from error
    except subprocess.TimeoutExpired as error:
        raise CompileError(f"Triton did not finish within {TIMEOUT_S:.0f} s", str(error), command) from error
    log = (run.stdout + run.stderr).replace(f"{root}/", "").replace(f"{folder}/", "")
    check_not_killed("Triton's process", run.returncode)
    if not answer.is_file():
        raise CompileError(f"Triton's process ended with code {run.returncode}", log, command)
    result: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
    if "error" in result:
        line = f"({result['line']})" if result.get("line") else ""
        message = f"{source.file}{line}: {result['error']}".replace(f"{root}/", "").replace(f"{folder}/", "")
        raise CompileError(message, log + result["log"].replace(f"{root}/", "").replace(f"{folder}/", ""), command)
    return result, log
