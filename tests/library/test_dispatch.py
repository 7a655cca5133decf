from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from library_support import ADDRESS, OnGpu, fortran, small_library
from narrowing import known

from lab.base.errors import MissingToolError, UserError
from lab.library import calls, dispatch
from lab.library.emit import write
from lab.toolchain import locate

GCC = shutil.which("gcc")


@pytest.fixture
def folder(tmp_path):
    library = small_library()
    write(library, {kernel.name: kernel.name.encode() for kernel in library.kernels}, tmp_path)
    return tmp_path


def test_a_folder_or_its_json_is_loaded(folder):
    by_folder, by_file = dispatch.load(folder), dispatch.load(folder / "sgemm.json")
    assert by_folder.library == by_file.library == small_library()


def test_what_is_no_library_is_refused(tmp_path):
    with pytest.raises(UserError, match="not hold exactly one library"):
        dispatch.load(tmp_path)
    with pytest.raises(UserError, match="cannot be read"):
        dispatch.load(tmp_path / "absent.json")


def test_select_remembers_and_agrees_with_the_logic(folder):
    loaded = dispatch.load(folder)
    logic = loaded.library.logic
    for _ in range(2):
        for size in [(16, 16, 64), (35, 700, 2560), (5000, 5000, 3104)]:
            assert loaded.select(*size) == logic.kernels[logic.select(*size)]
    with pytest.raises(UserError, match="not a size"):
        loaded.select(0, 1, 1)


def test_what_is_remembered_is_bounded(monkeypatch):
    monkeypatch.setattr(dispatch, "_MOST_REMEMBERED", 4)
    picker = dispatch.Picker(small_library().logic)
    held = []
    for m in range(1, 8):
        picker.select(m, 1, 1)
        held.append(len(picker._picked))
    assert held == [1, 2, 3, 4, 1, 2, 3]


def test_without_pycuda_gemm_says_how_to_get_it(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "pycuda.driver", None)
    loaded = dispatch.load(folder)
    a, b, c = operands_of([(3, 5), (5, 4), (3, 4)])
    with pytest.raises(MissingToolError, match="pip install"):
        loaded.gemm(1.0, a, b, 0.0, c)


def operands_of(shapes, *, stream=None):
    """Matrices at addresses of their own."""
    return [OnGpu(fortran(*s), address=ADDRESS * i, stream=stream) for i, s in enumerate(shapes, 1)]


class FakeDriver:
    """PyCUDA's driver as dispatch uses it, writing down what is queued."""

    class Error(Exception):
        pass

    class function_attribute:  # noqa: N801 - PyCUDA's name
        MAX_DYNAMIC_SHARED_SIZE_BYTES = 8

    def __init__(self):
        self.log, self.Context = [], self
        self.loaded = []
        self.stack = ["the caller's"]

    def init(self):
        pass

    def Device(self, ordinal):  # noqa: N802 - PyCUDA's name
        assert ordinal == 0
        return self

    def retain_primary_context(self):
        return self

    def get_current(self):
        return self if self.stack else None

    def push(self):
        self.stack.append("primary")

    def pop(self):
        self.stack.pop()

    def synchronize(self):
        self.log.append("synchronize")

    def mem_alloc(self, size):
        self.log.append(("alloc", size))
        return 1 << 30

    def memset_d8_async(self, *arguments):
        self.log.append(("memset", *arguments))

    def module_from_buffer(self, cubin):
        self.loaded.append(cubin)
        return self

    def get_function(self, entry):
        return FakeFunction(entry, self.log, self)


class FakeFunction:
    def __init__(self, entry, log, driver):
        self.entry, self.log, self.driver = entry, log, driver

    def prepare(self, codes):
        self.codes = codes

    def set_attribute(self, attribute, value):
        self.log.append(("shared", value))

    def prepared_async_call(self, grid, block, stream, *values, shared_size):
        assert self.driver.stack  # a launch needs a context
        self.log.append((self.entry, grid, block, shared_size, self.codes, values))


@pytest.fixture
def driver(monkeypatch):
    fake = FakeDriver()
    monkeypatch.setattr(importlib, "import_module", lambda name: fake)
    return fake


def test_gemm_queues_the_launches_of_the_selected_kernel(folder, driver):
    loaded = dispatch.load(folder)
    a, b, c = (OnGpu(fortran(*shape), address=ADDRESS * i) for i, shape in enumerate([(300, 8), (8, 50), (300, 50)], 1))
    for _ in range(2):
        loaded.gemm(2.0, a, b, 0.5, c)
    at, partial = ADDRESS, 300 * 50 * 4 * 4
    first = [
        ("memset", 1 << 30, 0, partial, None),
        ("shared", 65536),
        (
            "part",
            (3, 17, 4),
            (256, 1, 1),
            65536,
            "iiifPiPifPi",
            (300, 50, 8, 2.0, at, 300, 2 * at, 8, 0.5, 3 * at, 300),
        ),
        ("reduce", (300, 1, 1), (32, 1, 1), 0, "PPl", (1 << 30, 3 * at, 300)),
    ]
    rounded = -(-partial // 256) * 256
    again = [one for one in first if one[0] != "shared"]  # a function asks for shared memory once
    assert driver.log == [("alloc", rounded + 256), *first, *again]
    assert driver.loaded == [loaded.select(300, 50, 8).encode()]


def test_the_stack_of_contexts_is_left_as_it_was(folder, driver):
    loaded = dispatch.load(folder)
    operands = operands_of([(300, 8), (8, 50), (300, 50)])
    for stack in ([], ["the caller's"], []):  # PyCUDA aborts a program that ends with a context on the stack
        driver.stack[:] = stack
        loaded.gemm(1.0, operands[0], operands[1], 0.0, operands[2])
        assert driver.stack == stack
    assert len(driver.loaded) == 1
    for file in folder.glob("*.cubin"):
        file.unlink()
    with pytest.raises(UserError, match="lacks a cubin"):
        dispatch.load(folder).gemm(1.0, operands[0], operands[1], 0.0, operands[2])
    assert driver.stack == []


def test_contents_of_another_stream_are_waited_for(folder, driver):
    shapes = [(300, 8), (8, 50), (300, 50)]
    loaded = dispatch.load(folder)
    c = operands_of(shapes)[2]
    a, b, _ = operands_of(shapes, stream=1)
    loaded.gemm(1.0, a, b, 0.0, c)
    assert "synchronize" not in driver.log
    a, b, _ = operands_of(shapes, stream=77)
    loaded.gemm(1.0, a, b, 0.0, c)
    assert "synchronize" in driver.log


def test_a_missing_cubin_is_named_when_it_is_needed(folder, driver):
    for file in folder.glob("*.cubin"):
        file.unlink()
    loaded = dispatch.load(folder)
    assert loaded.select(3, 4, 5) == loaded.library.logic.kernels[loaded.library.logic.select(3, 4, 5)]
    a, b, c = operands_of([(3, 5), (5, 4), (3, 4)])
    with pytest.raises(UserError, match="lacks a cubin"):
        loaded.gemm(1.0, a, b, 0.0, c)


def test_no_file_is_read_after_a_library_is_loaded(folder, driver):
    loaded = dispatch.load(folder)
    for file in folder.iterdir():
        file.unlink()
    a, b, c = operands_of([(300, 8), (8, 50), (300, 50)])
    loaded.gemm(1.0, a, b, 0.0, c)
    assert driver.loaded == [loaded.select(300, 50, 8).encode()]


def test_a_forked_process_is_told_to_load_the_library_itself(folder, driver, monkeypatch):
    loaded = dispatch.load(folder)
    a, b, c = operands_of([(300, 8), (8, 50), (300, 50)])
    loaded.gemm(1.0, a, b, 0.0, c)
    queued = list(driver.log)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(UserError, match="forked after the library's first call"):
        loaded.gemm(1.0, a, b, 0.0, c)
    assert driver.log == queued


def test_an_operand_that_c_overlaps_is_refused_before_anything_is_launched(folder, driver):
    loaded = dispatch.load(folder)
    a, b, _ = operands_of([(8, 8), (8, 8), (8, 8)])
    with pytest.raises(UserError, match="C shares elements with B"):
        loaded.gemm(1.0, a, b, 0.0, b)
    assert driver.log == []


STUBS = """
#include <stdio.h>
#include "sgemm.h"
static char symbols[999][32];
static int count;
CUresult cuModuleLoad(CUmodule *m, const char *path) { printf("load %s\\n", path); *m = (CUmodule)symbols; return 0; }
CUresult cuModuleUnload(CUmodule m) { return m == NULL; }
CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name)
{ (void)m; snprintf(symbols[count], 32, "%s", name); *f = (CUfunction)symbols[count++]; return 0; }
CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute a, int v) { (void)f; return a != 8 || v <= 0; }
CUresult cuMemsetD8Async(CUdeviceptr at, unsigned char v, size_t n, CUstream s)
{ (void)s; printf("memset %llu %d %zu\\n", at, v, n); return 0; }
CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, CUstream s, void **a, void **extra)
{
    (void)s; (void)extra;
    printf("%s %u %u %u %u %u %u %u", (const char *)f, gx, gy, gz, bx, by, bz, shared);
    if (((const char *)f)[0] == 'p')
        printf(" %d %d %d %g %llu %d %llu %d %g %llu %d\\n", *(int *)a[0], *(int *)a[1], *(int *)a[2], *(float *)a[3],
               *(CUdeviceptr *)a[4], *(int *)a[5], *(CUdeviceptr *)a[6], *(int *)a[7], *(float *)a[8],
               *(CUdeviceptr *)a[9], *(int *)a[10]);
    else
        printf(" %llu %llu %lld\\n", *(CUdeviceptr *)a[0], *(CUdeviceptr *)a[1], (long long)*(int64_t *)a[2]);
    return 0;
}
int main(void)
{
    sgemm_library *library = NULL;
    if (sgemm_open(&library, "here") != CUDA_SUCCESS) return 1;
    long long m, n, k, lda, ldb, ldc;
    const CUdeviceptr at = 1 << 20;
    while (scanf("%lld %lld %lld %lld %lld %lld", &m, &n, &k, &lda, &ldb, &ldc) == 6) {
        size_t bytes = 0;
        CUresult status = sgemm_workspace(m, n, k, 2.0f, lda, ldb, 0.5f, ldc, &bytes);
        printf("status %d %zu\\n", status, bytes);
        status = sgemm_gemm(library, m, n, k, 2.0f, at, lda, 2 * at, ldb, 0.5f, 3 * at, ldc, 1 << 30, bytes, NULL);
        printf("status %d\\n", status);
    }
    printf("misaligned %d\\n", sgemm_gemm(library, 4, 4, 4, 1, at + 4, 4, at, 4, 0, at, 4, 1 << 30, 1 << 20, NULL));
    printf("no room %d\\n", sgemm_gemm(library, 4, 4, 4, 1, at, 4, at, 4, 0, at, 4, 1 << 30, 1, NULL));
    sgemm_close(library);
    return 0;
}
"""


def as_printed(library, m, n, k, leading):
    """What the stubs print for a size, by dispatch's own plan."""
    values = {
        "m": m,
        "n": n,
        "k": k,
        **dict(zip(("lda", "ldb", "ldc"), leading, strict=True)),
        "alpha": 2.0,
        "beta": 0.5,
    }
    made = calls.plan(library, values)
    where = {"A": ADDRESS, "B": 2 * ADDRESS, "C": 3 * ADDRESS, **{b.name: (1 << 30) + b.offset for b in made.buffers}}
    lines = [f"status 0 {made.workspace_bytes}"]
    lines += [f"memset {where[b.name]} 0 {b.bytes}" for b in made.buffers if b.zero]
    for step in made.steps:
        arguments = [where[v] if isinstance(v, str) else v for v in step.values]
        numbers = (*step.grid, *step.block, step.shared_bytes, *arguments)
        lines.append(f"{step.entry} {' '.join(f'{x:g}' if isinstance(x, float) else str(x) for x in numbers)}")
    return [*lines, "status 0"]


@pytest.mark.skipif(GCC is None, reason="gcc compiles what is emitted")
def test_c_launches_what_python_launches(folder):
    library = small_library()
    (folder / "main.c").write_text(STUBS)
    headers = locate.headers()
    assert headers is not None
    sources = [folder / "main.c", folder / "sgemm.c"]
    flags: list[str | Path] = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-I", headers]
    subprocess.run([known(GCC), *flags, "-o", folder / "main", *sources], check=True)
    good = [
        (300, 50, 8, 300, 8, 304),
        (1, 1, 1, 1, 1, 1),
        (700, 35, 2560, 1024, 2560, 700),
        (5000, 9, 6, 5000, 6, 5001),
    ]
    bad = [(300, 50, 8, 299, 8, 300), (300, 50, 8, 300, 8, 299), (0, 1, 1, 1, 1, 1), (300, 50, 8, 300, 2**31, 300)]
    text = "\n".join(" ".join(map(str, line)) for line in [*good, *bad])
    run = subprocess.run([folder / "main"], input=text, capture_output=True, text=True, check=True)
    lines = run.stdout.splitlines()
    loads = [f"load here/{kernel.cubin}" for kernel in library.kernels]
    wanted = [line for m, n, k, *leading in good for line in as_printed(library, m, n, k, leading)]
    refused = ["status 1 0", "status 1"] * len(bad)
    assert lines == [*loads, *wanted, *refused, "misaligned 716", "no room 1"]
