"""Which buffers a kernel may write, and which variables its accesses mean."""

import pytest
from small_ptx import execute, kernel

from lab.emulator.api import launch
from lab.emulator.memory.provenance import Provenance
from lab.emulator.program import Program
from lab.isa.ptx.module import read_ptx

LOAD = "ld.param.u64 %rd0, [a]; ld.param.u64 %rd1, [b]; cvta.to.global.u64 %rd2, %rd0; cvta.to.global.u64 %rd3, %rd1;"


def names(body, module=""):
    return Provenance(Program(read_ptx(kernel(LOAD + body, ["a", "b"], module=module)), "k")).written_names


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
        # Copies write what they name first; the coordinates of a box are no pointers.
        ("cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r0], 16;", {"a"}),
        ("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd3], [%r0], 16;", {"b"}),
        ("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r0], [%rd2], 16, [%r1];", set()),
        (("ld.global.u64 %rd4, [%rd2]; cvt.u32.u64 %r0, %rd4; "
          "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%rd3, {%r0}], [%r1];"), {"b"}),
        ("cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%r0], [%rd2, {%r0}], [%r1];",
         set()),
    ],
)  # fmt: skip
def test_parameters(body, written):
    assert names(body) == (None if written is None else frozenset(written))


def test_variables_of_the_module():
    module = ".global .u32 count; .global .u32 other;"
    assert names("atom.global.add.u32 %r0, [count], 1; ld.global.u32 %r1, [other];", module) == {"count"}


@pytest.mark.parametrize(
    ("body", "written"),
    [
        ("atom.global.add.u32 %r0, [count], 1;", {"count"}),
        ("st.global.u32 [%rd2], 1;", set()),
        ("st.const.u32 [table], 1;", set()),
        ("mov.u64 %rd4, other; st.global.u32 [%rd4+8], 1;", {"other"}),
        ("ld.global.u64 %rd4, [%rd2]; st.global.u32 [%rd4], 1;", {"count", "other"}),
    ],
)
def test_variables_that_may_be_written(body, written):
    module = ".global .u32 count; .global .u32 other[4]; .const .u32 table;"
    program = Program(read_ptx(kernel(LOAD + body, ["a", "b"], module=module)), "k")
    assert Provenance(program).written_variables == written


def test_an_access_beyond_its_variable_is_found_where_the_next_one_begins():
    declared = ".shared .align 4 .b8 one[16]; .shared .align 4 .b8 two[16];"
    body = "mov.u32 %r0, %tid.x; mov.u32 %r1, one; mad.lo.u32 %r2, %r0, 4, %r1; st.shared.u32 [%r2], %r0;"
    emulation, _ = execute(body, block=4, outputs=0, declarations=declared)
    assert emulation.clean
    emulation, _ = execute(body.replace("[%r2]", "[%r2+4]"), block=4, outputs=0, declarations=declared)
    (finding,) = emulation.findings
    assert (finding.kind, finding.count) == ("out-of-bounds", 1)
    assert finding.detail == "store of 4 bytes at offset 16 of one[4], elements of 4 bytes, beyond the variable"


def test_an_access_beyond_its_variable_in_local_memory_is_found():
    declared = ".local .align 4 .b8 one[16]; .local .align 4 .b8 two[16];"
    body = "mov.u64 %rd1, one; st.local.u32 [two], 1; st.local.u32 [%rd1+12], 1; ld.local.u32 %r1, [%rd1+12];"
    assert execute(body, block=2, outputs=0, declarations=declared)[0].clean
    emulation, _ = execute(body.replace("u32 [%rd1+12]", "u32 [%rd1+16]"), block=2, outputs=0, declarations=declared)
    (finding,) = emulation.findings
    assert (finding.kind, finding.count) == ("out-of-bounds", 2)
    assert finding.detail == "store of 4 bytes at offset 16 of one[4], elements of 4 bytes, beyond the variable"


def test_variables_of_the_module_have_no_neighbours():
    module = ".global .align 4 .b32 one[4]; .global .align 4 .b32 two[4]; .const .align 4 .b32 three[2];"
    for text, space in (
        ("st.global.u32 [one+16], 1;", ".global one"),
        ("ld.const.u32 %r1, [three+8];", ".const three"),
    ):
        emulation = launch(kernel(text, module=module), "k", 1, 1, [])
        (finding,) = emulation.findings
        assert finding.kind == "out-of-bounds"
        assert space in finding.detail


def test_an_access_that_may_mean_two_variables_is_left_alone():
    declared = ".shared .align 4 .b8 one[16]; .shared .align 4 .b8 two[16];"
    body = "mov.u32 %r0, one; mov.u32 %r1, two; setp.eq.u32 %p0, 0, 0; selp.u32 %r2, %r0, %r1, %p0;"
    body += "st.shared.u32 [%r2+16], 1;"
    assert execute(body, block=1, outputs=0, declarations=declared)[0].clean


def test_what_is_read_by_loads_for_read_only_memory():
    module = read_ptx(kernel(LOAD + "ld.global.nc.u32 %r0, [%rd2]; ld.global.u32 %r1, [%rd3];", ["a", "b"]))
    assert Provenance(Program(module, "k")).read_only_names == frozenset({"a"})
