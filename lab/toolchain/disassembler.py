"""nvdisasm: a cubin in, its machine code as a listing and as JSON out.

One call, for the listing with live registers (without them where nvdisasm refuses them); the JSON is made from it
(`lab.toolchain.sass_json`). A call takes about
0.3 s on any cubin: some 0.25 s go into setting up the decoder of one architecture, the rest into data flow
(which the branch targets need), so that only not calling it saves time; hence `lab.toolchain.cache`.
"""

from __future__ import annotations

import functools
import subprocess
import tempfile
from pathlib import Path

from lab.errors import CompileError, MissingToolError
from lab.toolchain import locate
from lab.toolchain.base import Disassembly, first_error
from lab.toolchain.line_table import LineTable, line_table
from lab.toolchain.sass_json import sass_json

INSTALL = "python -m pip install nvidia-cuda-nvdisasm"
TIMEOUT_S = 120.0

_LISTING = ("--print-code",)
_LIVE = ("--print-life-ranges", "--life-range-mode", "count")


def disassembler_version() -> str:
    """Version of the disassembler that `disassemble` uses, `13.5.37`.

    Raises:
        MissingToolError: there is none.
    """
    return _find()[1]


def disassemble(cubin: bytes) -> Disassembly:
    """Disassemble.

    Raises:
        CompileError: nvdisasm refuses the image, or does not finish within `TIMEOUT_S`.
        MissingToolError: there is no nvdisasm.
    """
    tool, version = _find()
    with tempfile.TemporaryDirectory(prefix="lab-nvdisasm-") as folder:
        image = Path(folder) / "lab.cubin"  # nvdisasm seeks in its input: no pipe
        image.write_bytes(cubin)
        try:
            text = _run(tool, (*_LISTING, *_LIVE), image)
        except CompileError:
            # nvdisasm 13.0 refuses live registers of kernels with all 255 registers: "Invalid register count"
            text = _run(tool, _LISTING, image)
    try:
        table = line_table(cubin)
    except ValueError:  # nvdisasm could read the image: what fails is an extra
        table = LineTable()
    return Disassembly(json=sass_json(text, table, version), text=text, version=version)


@functools.cache  # asked for every variant
def _find() -> tuple[Path, str]:
    tool = locate.tool("nvdisasm")
    if tool is None:
        raise MissingToolError(f"there is no nvdisasm; install it: {INSTALL}")
    version = locate.tool_version(tool)
    if version is None:
        raise MissingToolError(f"nvdisasm does not run; install it again: {INSTALL}")
    return tool, version


def _run(tool: Path, options: tuple[str, ...], image: Path) -> str:
    command = " ".join(["nvdisasm", *options, image.name])
    try:
        run = subprocess.run(
            [tool, *options, image],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
            check=False,
        )
    except OSError as error:
        raise MissingToolError(f"nvdisasm cannot be run ({error}); install it: {INSTALL}") from error
    except subprocess.TimeoutExpired as error:
        raise CompileError(f"nvdisasm did not finish within {TIMEOUT_S:.0f} s", str(error), command) from error
    log = run.stderr.replace(str(image), image.name)
    if run.returncode != 0 or not run.stdout:
        raise CompileError(f"nvdisasm refuses this cubin: {first_error(log)}", log, command)
    return run.stdout
