"""Which buffers a kernel may write."""

import pytest
from small_ptx import kernel

from lab.emulator.memory.writable import written_names
from lab.emulator.program import Program
from lab.isa.ptx.module import read_ptx

LOAD = "ld.param.u64 %rd0, [a]; ld.param.u64 %rd1, [b]; cvta.to.global.u64 %rd2, %rd0; cvta.to.global.u64 %rd3, %rd1;"


def names(body, module=""):
    return written_names(Program(read_ptx(kernel(LOAD + body, ["a", "b"], module=module)), "k"))


@pytest.mark.parametrize(
    ("body", "written"),
    [
        ("ld.global.u32 %r0, [%rd2]; st.global.u32 [%rd3], %r0;", {"b"}),
        ("mov.u64 %rd4, %rd2; add.s64 %rd5, %rd4, 8; red.global.add.u32 [%rd5], 1;", {"a"}),
        ("selp.u64 %rd4, %rd2, %rd3, %p0; st.global.u32 [%rd4], 1;", {"a", "b"}),
        # An index that was loaded is no pointer, a pointer that was loaded may be any.
        ("ld.global.u32 %r0, [%rd2]; mad.wide.u32 %rd4, %r0, 4, %rd3; st.global.u32 [%rd4], 1;", {"b"}),
        ("ld.global.u64 %rd4, [%rd2]; st.global.u32 [%rd4], 1;", None),
        ("ld.global.v2.u32 {%r0, %r1}, [%rd2]; mov.b64 %rd4, {%r0, %r1}; st.global.u32 [%rd4], 1;", None),
        (".shared .b32 s; st.shared.u32 [s], 1;", set()),
    ],
)
def test_parameters(body, written):
    assert names(body) == (None if written is None else frozenset(written))


def test_variables_of_the_module():
    module = ".global .u32 count; .global .u32 other;"
    assert names("atom.global.add.u32 %r0, [count], 1; ld.global.u32 %r1, [other];", module) == {"count"}
