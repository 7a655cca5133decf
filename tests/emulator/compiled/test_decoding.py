import pytest
import small_ptx

from lab.emulator.compiled.decoding import Decoder, MemoryAccess, NotCompiled, Operation
from lab.emulator.program import Program
from lab.isa.ptx.module import read_ptx


def decoder(body, declarations=""):
    return Decoder(Program(read_ptx(small_ptx.kernel(body, ["a"], declarations)), "k"), {})


def test_registers_live_where_a_later_block_reads_them():
    found = decoder("mov.u32 %r1, 1; mov.u32 %r2, 2; setp.eq.s32 %p1, %r1, 0; @%p1 bra $X; add.s32 %r3, %r2, 1; $X:")
    first, *rest = found.blocks
    assert found.live[first.index] == frozenset()
    assert found.live_after(first) == {"%r2"}
    assert all(found.live_after(block) == frozenset() for block in rest)


def test_a_guarded_write_keeps_the_old_value_alive():
    found = decoder("$L: setp.eq.s32 %p1, %r4, 0; @%p1 mov.u32 %r1, 1; @!%p1 bra $L; mov.u32 %r2, %r1;")
    assert "%r1" in found.live[found.blocks[0].index]


def test_only_results_of_arithmetic_may_hold_loose_nans():
    found = decoder(
        "mov.f32 %f1, 0f00000000; fma.rn.f32 %f1, %f1, %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, 0f7FC00001; "
        "neg.f32 %f5, %f1; ld.param.f32 %f6, [a]; add.f32 %f6, %f6, %f1;"
    )
    assert found.loose == {"%f1", "%f3"}


def test_accesses_and_operations_are_told_apart():
    found = decoder("ld.param.u64 %rd1, [a]; ld.global.v2.f32 {%f1, %f2}, [%rd1+8]; add.cc.u32 %r1, %r2, %r3;")
    load, vector, add = (found.decoded[i] for i in range(3))
    assert isinstance(load, MemoryAccess)
    assert load.space == "kernel-param"
    assert isinstance(vector, MemoryAccess)
    assert vector.registers == ("%f1", "%f2")
    assert isinstance(add, Operation)
    assert add.outs == ("%r1", "%CC")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("atom.global.add.u32 %r1, [%rd1], 1; mov.u32 %r2, %r1;", "order of threads"),
        ("ld.volatile.global.u32 %r1, [%rd1];", "volatile or ordered"),
        ("mbarrier.init.shared.b64 [%r1], 1;", "no compiled form"),
        ("bar.sync 1, 64;", "form of barrier"),
        ("red.global.add.f32 [%rd1], %f1; red.global.add.f32 [%rd1], %f1;", "second sum of floats"),
    ],
)
def test_what_is_not_supported_is_named_with_its_line(body, why):
    with pytest.raises(NotCompiled, match=rf"PTX line \d+: .*{why}"):
        decoder(body)
