"""Sources with the files that they include and the flags of their projects."""

from __future__ import annotations

import pytest

from lab.base.errors import UserError
from lab.templates.plain.unit import read_unit

SOURCE = """#include "k.h"
template <class T> __global__ void scale(T *x) { x[0] *= 2; }
namespace a { __global__ void one(real *x) { x[0] = N; } }
"""


@pytest.fixture
def unit(tmp_path):
    (tmp_path / "k.cu").write_text(SOURCE)
    (tmp_path / "k.h").write_text("typedef double real;\n__global__ void zero(real *x) { x[0] = 0; }\n")
    return read_unit(tmp_path / "k.cu", root=tmp_path, macros=["N=4"])


def test_kernels_of_headers_come_with_their_types(unit):
    assert [kernel.qualified_name for kernel in unit.kernels] == ["zero", "scale", "a::one"]
    assert {kernel.parameters[0].dtype for kernel in unit.kernels if kernel.template is None} == {"float64"}


def test_the_text_to_read_has_the_macros_of_the_flags(unit):
    assert unit.whole.startswith("#define N 4\n")
    assert not unit.without_macros({"N"}).whole.startswith("#define N")
    assert unit.request("sm_90", (), device_only=False).options == ("-DN=4",)


@pytest.mark.parametrize(
    ("wanted", "expressions"),
    [("one", ("a::one",)), ("a::one", ("a::one",)), ("zero", ("zero",)), ("scale<int>", ("scale<int>",))],
)
def test_a_name_means_a_kernel(unit, wanted, expressions):
    assert unit.named(wanted) == expressions


@pytest.mark.parametrize(("wanted", "found"), [("two", "two"), ("scale", "scale<T>")])
def test_other_names_are_refused(unit, wanted, found):
    with pytest.raises(UserError) as caught:
        unit.named(wanted)
    assert (caught.value.key, caught.value.found) == ("--kernel", found)


def test_macros_of_a_project_that_no_compiler_here_takes_are_left_out(tmp_path):
    (tmp_path / "k.cu").write_text(SOURCE)
    (tmp_path / "Makefile").write_text("k:\n\tnvcc -DN=4 '-DNAME=\"a;b\"' k.cu\n")
    assert read_unit(tmp_path / "k.cu").flags.macros == ("N=4",)
