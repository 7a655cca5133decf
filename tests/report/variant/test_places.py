"""Source lines of a listing's instructions: from a cubin's line table, or from the file that stands for it."""

from __future__ import annotations

import pytest

from lab.base.folder import Folder
from lab.isa.sass.module import read_sass
from lab.report.variant.places import LINES, sass_places, source_number, text_of
from lab.toolchain.base import CompileRequest
from lab.toolchain.select import build, toolchain

SOURCE = """extern "C" __global__ void first(float* x) { x[0] = 1; }
extern "C" __global__ void second(float* x, int n)
{
    for (int i = 0; i < n; ++i)
        x[i] = x[i] * x[i] + 1;
}
"""


@pytest.fixture(scope="module")
def built():
    return build(toolchain("nvrtc"), CompileRequest(SOURCE, "kernel.cu", "sm_90"))


def test_places_are_those_of_the_line_table(built, tmp_path):
    (tmp_path / "kernel.cubin").write_bytes(built.build.cubin)
    source_lines = dict(sass_places(Folder(tmp_path), "second", {"kernel.cu"}))
    module = read_sass(built.disassembly.text, built.disassembly.lines)
    function = next(function for function in module.functions if function.name == "second")
    line = 0
    for instruction in function.instructions:
        line = source_lines.get(instruction.address or 0, line)
        assert line == (instruction.source.line if instruction.source else 0)
    assert {5} <= set(source_lines.values()) <= {0, 2, 3, 4, 5, 6}


def test_without_a_cubin_the_published_table_is_read(built, tmp_path):
    (tmp_path / "kernel.cubin").write_bytes(built.build.cubin)
    places = sass_places(Folder(tmp_path), "second", {"kernel.cu"})
    (tmp_path / LINES).write_text(text_of(places), encoding="ascii")
    (tmp_path / "kernel.cubin").unlink()
    assert sass_places(Folder(tmp_path), "second", {"kernel.cu"}) == places != ()


def test_instructions_of_another_file_have_no_line(built, tmp_path):
    (tmp_path / "kernel.cubin").write_bytes(built.build.cubin)
    assert not any(line for _, line in sass_places(Folder(tmp_path), "second", {"other.cu"}))


@pytest.mark.parametrize("content", ["nonsense\n", "0010 3 4\n", "zz 3\n"])
def test_what_cannot_be_read_says_nothing(tmp_path, content):
    assert sass_places(Folder(tmp_path), "second", {"kernel.cu"}) == ()
    (tmp_path / "kernel.cubin").write_bytes(b"no image")
    (tmp_path / LINES).write_text(content, encoding="ascii")
    assert sass_places(Folder(tmp_path), "second", {"kernel.cu"}) == ()


def test_the_number_of_the_source_among_the_files():
    ptx = '\t.loc 2 1 0\n\t.file\t1 "/usr/include/mma.h"\n\t.file\t2 "/tmp/x/kernel.cu"\n'
    assert source_number(ptx, {"kernel.cu", "mine.cu"}) == 2
    assert source_number("\t.loc 1 1 0\n", {"kernel.cu"}) == 1
