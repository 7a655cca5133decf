"""Calls of device functions."""

import numpy as np
import pytest
from small_ptx import HEADER

from lab.emulator.api import launch
from lab.emulator.errors import UnsupportedInstruction

FUNCTIONS = """
.func (.param .b32 r) twice(.param .b32 x) { .reg .b32 %a; ld.param.u32 %a, [x]; add.u32 %a, %a, %a;
st.param.b32 [r], %a; ret; }
.func (.param .b32 r) both(.param .b32 x, .param .b32 y) { .reg .b32 %a; .reg .b32 %b; .reg .pred %p;
ld.param.u32 %a, [x]; ld.param.u32 %b, [y]; setp.lt.u32 %p, %a, 5; @%p bra SMALL;
{ .param .b32 q; .param .b32 s; st.param.b32 [q], %a; call.uni (s), twice, (q); ld.param.b32 %a, [s]; }
add.u32 %a, %a, %b; st.param.b32 [r], %a; ret;
SMALL:
st.param.b32 [r], %b; ret; }
.func nothing() { }
"""
KERNEL = (
    HEADER
    + FUNCTIONS
    + """
.visible .entry k(.param .u64 out) {
.reg .b32 %t; .reg .b32 %v; .reg .b64 %d; .reg .b64 %o; .reg .pred %p;
mov.u32 %t, %tid.x; mov.u32 %v, 1000; setp.lt.u32 %p, %t, 30; @!%p bra DONE;
{ .param .b32 a; .param .b32 b; .param .b32 c; st.param.b32 [a], %t; st.param.b32 [b], 100;
CALL
ld.param.b32 %v, [c]; }
DONE:
ld.param.u64 %o, [out]; mad.wide.u32 %o, %t, 4, %o; st.global.u32 [%o], %v; ret; }
"""
)


def run(call):
    out = np.zeros(40, np.uint32)
    emulation = launch(KERNEL.replace("CALL", call), "k", 1, 40, [out])
    assert emulation.clean
    return emulation, out


def test_threads_part_within_a_function_and_meet_after_it():
    t = np.arange(40)
    emulation, out = run("call.uni (c), both, (a, b);")
    np.testing.assert_array_equal(out, np.where(t < 30, np.where(t < 5, 100, 2 * t + 100), 1000))
    stores = [line for line in emulation.lines if line.opcode == "st.global.u32"]
    assert [line.warps for line in stores] == [2]  # all threads store together again


def test_an_empty_function_returns_at_once():
    _, out = run("st.param.b32 [c], %t; call.uni nothing;")
    np.testing.assert_array_equal(out[:30], np.arange(30))


def test_only_parameters_can_be_passed():
    with pytest.raises(UnsupportedInstruction, match="%t is not a parameter"):
        run("call.uni (c), twice, (%t);")
