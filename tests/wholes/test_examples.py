"""The programs of examples/ are built; tests/on_gpu/library/test_examples.py runs them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from library_support import small_library
from narrowing import known

from lab.library.emit import write
from lab.toolchain import locate

EXAMPLES = Path(__file__).parents[2] / "examples"
GCC = shutil.which("gcc")


@pytest.mark.skipif(GCC is None, reason="gcc compiles the example")
def test_the_c_compiles_against_what_is_emitted(tmp_path: Path) -> None:
    library = small_library()
    write(library, {kernel.name: b"" for kernel in library.kernels}, tmp_path)
    headers = known(locate.headers())
    flags: list[str | Path] = [
        "-std=c11",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-DNAME=sgemm",
        '-DHEADER="sgemm.h"',
        "-I",
        headers,
    ]
    command: list[str | Path] = [
        known(GCC),
        *flags,
        "-I",
        tmp_path,
        "-c",
        EXAMPLES / "gemm.c",
        "-o",
        tmp_path / "gemm.o",
    ]
    subprocess.run(command, check=True)
