"""Needs Triton in this environment, or in that of `$LAB_TRITON_PYTHON`; no GPU."""

from __future__ import annotations

import pickle
import re
from dataclasses import replace

import pytest

from lab.base.errors import CompileError, MissingToolError
from lab.isa.ptx.module import read_ptx
from lab.isa.ptx.signature import entry_parameters
from lab.toolchain.cache import Cache
from lab.toolchain.select import build
from lab.toolchain.triton import compiler
from lab.toolchain.triton.compiler import Triton, find_triton
from lab.toolchain.triton.source import TritonSource

TEXT = """import triton
import triton.language as tl

print("imported")

@triton.jit
def softmax_kernel(out, x, row_stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * row_stride + at, mask=at < columns, other=-float("inf"))
    values = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * row_stride + at, values / tl.sum(values, axis=0), mask=at < columns)

@triton.jit
def other(x):
    pass
"""
SOFTMAX = TritonSource(
    TEXT,
    "softmax.py",
    "softmax_kernel",
    (("out", "*fp32"), ("x", "*fp32"), ("row_stride", "i32"), ("columns", "i32")),
    (("BLOCK", 1024),),
    ("out", "x", "row_stride"),
)


@pytest.fixture(scope="module")
def triton() -> Triton:
    return find_triton() or pytest.skip("Triton is not on this machine")


@pytest.fixture(scope="module")
def made(triton):
    return triton.compile(SOFTMAX.request("sm_90"))


def test_a_function_becomes_a_build(made):
    assert made.symbols == {"softmax_kernel": "softmax_kernel"}
    assert made.cubin.startswith(b"\x7fELF")
    assert made.resources["softmax_kernel"].registers > 0
    assert (made.toolchain, made.arch) == ("triton", "sm_90")
    assert "imported" in made.log


def test_what_launches_must_know(made):
    assert made.launch.threads == 128
    assert made.launch.dynamic_shared_bytes > 0
    assert made.launch.cluster == 1
    [kernel] = read_ptx(made.ptx).kernels
    parameters = entry_parameters(kernel)
    assert [one.may_be_pointer for one in parameters[:4]] == [True, True, False, False]
    assert made.launch.hidden_pointers == len(parameters) - 4
    assert all(one.may_be_pointer for one in parameters[4:])


def test_an_integer_that_is_always_1_is_a_constant(triton, made):
    fixed = triton.compile(replace(SOFTMAX, divisible=("out", "x"), ones=("row_stride",)).request("sm_90"))
    assert fixed.launch.absent_arguments == (2,)
    assert fixed.launch.hidden_pointers == made.launch.hidden_pointers
    assert len(read_ptx(fixed.ptx).kernels[0].parameters) == len(read_ptx(made.ptx).kernels[0].parameters) - 1
    text = TEXT.replace("@triton.jit\ndef soft", "@triton.jit(do_not_specialize=['row_stride'])\ndef soft")
    general = triton.compile(replace(SOFTMAX, text=text, ones=("row_stride",)).request("sm_90"))
    assert general.launch.absent_arguments == ()


def test_warps_and_constants_are_parameters(triton, made):
    wide = triton.compile(replace(SOFTMAX, num_warps=8, constants=(("BLOCK", 2048),)).request("sm_90"))
    assert wide.launch.threads == 256
    assert wide.ptx != made.ptx


def test_the_line_table_names_no_folder_of_this_machine(made):
    files = re.findall(r'\.file\s+\d+\s+"(.*)"', made.ptx)
    assert "/softmax.py" in files
    assert all(re.match(r"/(softmax\.py|triton/)", file) for file in files)
    assert b"/tmp/" not in made.cubin


def test_a_build_is_disassembled_and_cached(triton, tmp_path):
    first = build(triton, SOFTMAX.request("sm_90"), Cache(tmp_path))
    again = build(triton, SOFTMAX.request("sm_90"), Cache(tmp_path))
    assert (first.cached, again.cached) == (False, True)
    assert again.build.launch == first.build.launch
    assert again.build.ptx == first.build.ptx
    assert "softmax_kernel" in again.disassembly.text


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"function": "softmax"},
            r"softmax.py: there is no Triton function 'softmax'; the file has softmax_kernel, other",
        ),
        ({"constants": ()}, r"constexpr arguments \['BLOCK'\], and the experiment gives no \['BLOCK'\]"),
        (
            {"signature": SOFTMAX.signature[:2]},
            r"takes \['out', 'x', 'row_stride', 'columns'\], and .* passes \['out', 'x'\]",
        ),
        ({"text": TEXT.replace("tl.exp", "tl.oops")}, "oops"),
        ({"text": "raise SystemExit(3)"}, "SystemExit: 3"),
        ({"text": "import os\nos._exit(4)"}, "ended with code 4"),
        ({"text": "import no_such_module"}, "no_such_module"),
        ({"text": "x ="}, "SyntaxError"),
        ({"constants": (("BLOCK", 1000),)}, "power of 2|CompilationError"),
    ],
)
def test_mistakes(triton, change, words):
    with pytest.raises(CompileError, match=words) as caught:
        triton.compile(replace(SOFTMAX, **change).request("sm_90"))
    assert "/tmp/" not in str(caught.value)  # noqa: S108 - where the worker's folder is


def test_it_travels_to_a_worker(triton):
    assert pickle.loads(pickle.dumps(triton)) == triton  # noqa: S301 - our own bytes
    assert triton.supports("sm_90")


def test_a_python_that_went_away(tmp_path):
    with pytest.raises(MissingToolError, match="install Triton"):
        Triton(tmp_path / "python", "3").compile(SOFTMAX.request("sm_90"))


def test_a_machine_without_triton(monkeypatch, tmp_path):
    monkeypatch.setenv(compiler.PYTHON_VARIABLE, str(tmp_path / "python"))
    assert find_triton() is None
    assert find_triton("3") is None
