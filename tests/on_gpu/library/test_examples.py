"""The programs of examples/ run, with libraries compiled here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from real_libraries import write_library

from lab.toolchain import locate

pytestmark = pytest.mark.gpu

EXAMPLES = Path(__file__).parents[3] / "examples"
GCC = shutil.which("gcc")


def test_a_linear_layer_is_replaced(gpu, tmp_path):
    pytest.importorskip("torch")
    for layout in ("nn", "nt", "tn"):
        write_library(layout, gpu.arch, tmp_path / "libraries" / layout)
    command = [sys.executable, EXAMPLES / "linear.py", tmp_path / "libraries"]
    paths = os.pathsep.join([str(EXAMPLES.parent), os.environ.get("PYTHONPATH", "")])
    ran = subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    names = [line.split()[0] for line in ran.stdout.splitlines()]
    assert names == ["y", "x", "0.weight", "0.bias", "2.weight"]


@pytest.mark.skipif(GCC is None, reason="gcc compiles the example")
def test_the_c_computes_a_product(gpu, tmp_path):
    write_library("nn", gpu.arch, tmp_path)
    headers = locate.headers()
    assert GCC is not None
    assert headers is not None
    flags = ["-std=c11", "-O2", "-Wall", "-Wextra", "-DNAME=sgemm", '-DHEADER="sgemm.h"', "-I", headers, "-I", tmp_path]
    links = ["-l:libcuda.so.1", "-lm", "-o", tmp_path / "gemm"]
    subprocess.run([GCC, *flags, EXAMPLES / "gemm.c", tmp_path / "sgemm.c", *links], check=True)
    ran = subprocess.run([tmp_path / "gemm", tmp_path], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "largest error" in ran.stdout
