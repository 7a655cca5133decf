"""Sources for nvcc are compiled by whatever compiler takes them."""

from __future__ import annotations

import pytest

from lab.base.errors import CompileError
from lab.templates.plain.building import compile_unit
from lab.templates.plain.unit import read_unit
from lab.toolchain.nvcc import find_nvcc

HOST = "#include <list>\n__global__ void k(int *x) { std::list<int> *y = 0; x[0] = y == 0; }\n"


@pytest.fixture
def unit(tmp_path):
    def write(text):
        (tmp_path / "k.cu").write_text(text)
        return read_unit(tmp_path / "k.cu", root=tmp_path)

    return write


@pytest.mark.skipif(find_nvcc() is None, reason="nvcc is not installed")
def test_nvcc_compiles_what_nvrtc_refuses_and_a_note_says_so(unit):
    made = compile_unit(unit(HOST), "sm_90", ("k",))
    assert made.compiled.build.toolchain.endswith("nvcc")
    assert made.compiled.build.symbols == {"k": "_Z1kPi"}
    assert len(made.notes) == 1


def test_a_compiler_that_is_named_has_no_stand_in(unit):
    with pytest.raises(CompileError):
        compile_unit(unit(HOST), "sm_90", ("k",), "nvrtc")


def test_what_no_compiler_takes_is_refused_in_the_words_of_the_first(unit):
    with pytest.raises(CompileError, match="undefined"):
        compile_unit(unit("__global__ void k(int *x) { x[0] = y; }"), "sm_90", ())


def test_instances_that_do_not_exist_are_left_out_and_named(unit):
    text = "template <class T> __global__ void k(T *x) { x[0] = 1; }"
    made = compile_unit(unit(text), "sm_90", ("k<int>", "k<Missing>"))
    assert [*made.compiled.build.symbols] == ["k<int>"]
    assert "k<Missing>" in made.notes[0]
    with pytest.raises(CompileError):
        compile_unit(unit(text), "sm_90", ("k<Missing>",))
