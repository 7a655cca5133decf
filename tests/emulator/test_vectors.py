"""Vector registers."""

import numpy as np
from small_ptx import HEADER, execute

from lab.emulator.vectors import with_vectors_expanded
from lab.isa.ptx.module import read_ptx


def test_vectors_are_written_as_their_elements():
    text = ".func f() { .reg .v4 .f32 v; .reg .v2 .b32 %w<3>; .reg .f32 s;\nBODY }"
    body = "mov.v4.f32 v, {s, s, s, s}; add.f32 s, v.x, v.a; mov.b64 [%w2.y], %w1; mov.f32 s, s;"
    function = read_ptx(HEADER + text.replace("BODY", body)).functions[0]
    assert [instruction.operands for instruction in with_vectors_expanded(function).instructions] == [
        ("{v.x, v.y, v.z, v.w}", "{s, s, s, s}"),
        ("s", "v.x", "v.w"),
        ("[%w2.y]", "{%w1.x, %w1.y}"),
        ("s", "s"),
    ]


def test_a_function_without_vectors_stays_as_it_is():
    function = read_ptx(HEADER + ".func f() { .reg .f32 s; mov.f32 s, s; }").functions[0]
    assert with_vectors_expanded(function) is function


def test_vectors_are_moved_loaded_and_stored():
    x = np.arange(32, dtype=np.uint32)
    _, out = execute(
        "mov.v4.b32 v, {%i0, 10, 20, 30}; mov.v4.b32 {v.w, v.z, v.y, v.x}, v;"
        "st.shared.v4.b32 [s], v; ld.shared.v2.b32 %w1, [s+8];"
        "mad.lo.u32 %o0, %w1.y, 1000, %w1.x;",
        x,
        declarations=".reg .v4 .b32 v; .reg .v2 .b32 %w<2>; .shared .align 16 .b32 s[4];",
        block=32,
        check=False,
    )
    # every thread stores to the same place: the last one wins
    np.testing.assert_array_equal(out, np.full(32, 31 * 1000 + 10))
