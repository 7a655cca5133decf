"""Products that wrap around."""

import compiling
import numpy as np
import pytest
import small_ptx

from lab.emulator.api import launch
from lab.emulator.batch import make_batch
from lab.emulator.binding import Storage
from lab.emulator.program import Program
from lab.emulator.registers import RegisterFile
from lab.emulator.special import StepClock
from lab.emulator.wraps import wrap_check
from lab.isa.ptx.module import read_ptx

SOURCE = """extern "C" __global__ void rows(float* y, int rows, int pitch) {
  int r = blockIdx.x;
  long long at = r * pitch;
  if (threadIdx.x == 0) y[r & 7] = at;
}
extern "C" __global__ void shares(unsigned* y, int n) {
  int begin = n * blockIdx.x / gridDim.x;
  if (threadIdx.x == 0) y[blockIdx.x & 7] = begin;
}
extern "C" __global__ void hash(unsigned* y, int n) {
  y[threadIdx.x & 7] = threadIdx.x * 2654435761u;
}"""


@pytest.fixture(scope="module")
def ptx():
    return compiling.compile_text(SOURCE, "-lineinfo")


def lines(ptx, kernel, grid, *scalars, blocks=None):
    y = np.zeros(8, np.float32 if kernel == "rows" else np.uint32)
    found = launch(ptx, kernel, grid, 32, [y, *scalars], blocks=blocks, wraps=True, engine="auto")
    return [wrap.line for wrap in found.wraps]


def test_an_index_that_is_too_large_for_its_type(ptx):
    assert lines(ptx, "rows", 300_000, 300_000, 8960, blocks=[299_999]) == [3]
    assert lines(ptx, "rows", 300_000, 300_000, 8960, blocks=[5]) == []


def test_a_share_of_a_large_array(ptx):
    assert lines(ptx, "shares", 1000, 100_000_000, blocks=[0, 999]) == [7]
    assert lines(ptx, "shares", 1000, 1_000_000, blocks=[0, 999]) == []


def test_a_hash_wraps_on_purpose(ptx):
    assert lines(ptx, "hash", 1, 0) == []


def test_nobody_asked(ptx):
    assert launch(ptx, "rows", 8, 32, [np.zeros(8, np.float32), 8, 2**30]).wraps == ()


@pytest.mark.parametrize(("factor", "noted"), [((1 << 20) - 1, True), ((1 << 20) + 1, False), (3, True)])
def test_factors_up_to_a_million_are_those_of_indices(factor, noted):
    body = f"mov.u32 %r0, 0x70000000; mul.lo.s32 %r1, %r0, {factor};"
    places: set[int] = set()
    program = Program(read_ptx(small_ptx.kernel(body)), "k")
    batch = make_batch((1, 1, 1), (32, 1, 1), 0, 1)
    storage = Storage(program, batch, RegisterFile(program, 32), {}, {}, StepClock())
    register = storage.registers.array(0, "%r0")
    assert register is not None
    register[:] = 0x70000000
    check = wrap_check(storage.at(1), 1, places)
    assert (check is not None) is noted
    if check is not None:
        check(batch.everyone)
        assert places == {1}


@pytest.mark.parametrize(
    ("opcode", "a", "b", "wraps"),
    [
        ("mul.lo.s32", 1 << 16, 1 << 15, True),
        ("mul.lo.s32", 1 << 16, (1 << 15) - 1, False),
        ("mul.lo.s32", -(1 << 16), 1 << 15, False),
        ("mul.lo.s32", -(1 << 16) - 1, 1 << 15, True),
        ("shl.b32", 1, 31, True),
        ("shl.b32", 1, 30, False),
        ("shl.b32", 3, 40, True),
        ("mul.wide.s32", 1 << 16, 1 << 16, False),
    ],
)
def test_the_ends_of_a_signed_word(opcode, a, b, wraps):
    target = "%rd0" if "wide" in opcode else "%r2"
    program = Program(read_ptx(small_ptx.kernel(f"{opcode} {target}, %r0, %r1;")), "k")
    batch = make_batch((1, 1, 1), (32, 1, 1), 0, 1)
    storage, places = Storage(program, batch, RegisterFile(program, 32), {}, {}, StepClock()), set[int]()
    for name, value in (("%r0", a), ("%r1", b)):
        register = storage.registers.array(0, name)
        assert register is not None
        register[:] = np.int64(value).astype(np.uint32)
    check = wrap_check(storage.at(0), 0, places)
    if check is not None:
        check(batch.everyone)
    assert bool(places) is wraps
