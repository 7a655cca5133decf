"""Operands of one instruction, bound to a batch."""

import numpy as np
import pytest
from small_ptx import kernel

from lab.emulator.batch import make_batch
from lab.emulator.binding import CARRY, Storage
from lab.emulator.errors import UnsupportedInstruction
from lab.emulator.lanes import Lanes
from lab.emulator.memory.memory import LOCAL_WINDOW, SHARED_WINDOW
from lab.emulator.opcodes import UnknownForm
from lab.emulator.program import Program
from lab.emulator.registers import RegisterFile
from lab.emulator.special import StepClock, special_registers
from lab.isa.ptx.module import read_ptx

BODY = ".shared .align 8 .b8 pad[24]; .shared .align 8 .b8 tile[64]; .local .align 8 .b8 mine[8];\nBODY"
SOME = Lanes(64, np.array([3, 40]))
ALL = Lanes(64)


def storage(body="mov.u64 %rd0, tile; st.local.u8 [mine], 1; st.shared.u8 [pad], 1;", symbols=()):
    program = Program(read_ptx(kernel(BODY.replace("BODY", body))), "k")
    batch = make_batch((1, 1, 1), (64, 1, 1), 0, 1)
    registers = RegisterFile(program, batch.threads)
    return Storage(program, batch, registers, special_registers(batch, 96, 0), dict(symbols), StepClock(5))


def binder(**options):
    return storage(**options).at(0)


def test_reads_gather_chosen_threads():
    thread_storage = storage()
    thread_storage.registers.array(0, "%r1")[:] = np.arange(64)
    assert thread_storage.at(0).source("%r1", "u32")(SOME).tolist() == [3, 40]
    assert thread_storage.at(0).source("%r1", "u32")(ALL).base is not None  # a view, not a copy


def test_one_value_for_all_threads():
    assert binder().source("-1", "s32")(SOME).tolist() == [-1]
    assert binder().source("%ntid.x", "u32")(ALL).tolist() == [64]
    assert binder().source("0f3F800000", "f32")(SOME).tolist() == [1.0]
    assert binder().source("%clock64", "u64")(SOME).tolist() == [5]


def test_a_wider_register_gives_its_low_bits():
    thread_storage = storage()
    thread_storage.registers.array(0, "%rd1")[:] = 0xFFFF_FFFF_8000_0001
    assert thread_storage.at(0).source("%rd1", "s32")(SOME).tolist() == [-(2**31) + 1] * 2


def test_a_narrow_value_is_extended_by_its_sign():
    thread_storage = storage()
    thread_storage.at(0).target("%rd1", "s16")(SOME, np.array([-2, 5], np.int16))
    thread_storage.at(0).target("%rd2", "u16")(SOME, np.array([0xFFFE, 5], np.uint16))
    assert thread_storage.registers.array(0, "%rd1")[[3, 40, 0]].tolist() == [2**64 - 2, 5, 0]
    assert thread_storage.registers.array(0, "%rd2")[[3, 40, 0]].tolist() == [0xFFFE, 5, 0]


def test_guards_and_negated_predicates():
    thread_storage = storage("@!%p1 mov.u32 %r0, 1;")
    thread_storage.registers.array(0, "%p1")[3] = True
    guard = thread_storage.at(0).guard()()
    assert not guard[3]
    assert guard[4]
    assert thread_storage.at(0).source("!%p1", "pred")(SOME).tolist() == [False, True]


def test_the_carry_flag_is_an_operand():
    thread_storage = storage()
    thread_storage.at(0).target(CARRY, "pred")(SOME, np.array([True]))
    assert thread_storage.registers.carry.sum() == 2
    thread_storage.at(0).target("_", "u32")(SOME, np.array([1], np.uint32))


@pytest.mark.parametrize(
    ("text", "space", "wanted"),
    [
        ("[tile+8]", "shared", 32),
        ("[tile]", "generic", SHARED_WINDOW + 24),
        ("[mine]", "generic", LOCAL_WINDOW),
        ("[16]", "shared", 16),
        ("[counter+4]", "global", 1004),
        ("[counter+-8]", "global", 992),
        ("[8+-16]", "global", -8),
        ("[tile+7]", "shared", 31),
    ],
)
def test_fixed_addresses(text, space, wanted):
    assert binder(symbols={"counter": 1000}.items()).address(text, space)(SOME).tolist() == [wanted] * 2


def test_addresses_in_32_bits_wrap():
    thread_storage = storage()
    thread_storage.registers.array(0, "%r1")[:] = 4
    thread_storage.registers.array(0, "%rd1")[:] = 4
    assert thread_storage.at(0).address("[%r1+-8]", "shared")(SOME).tolist() == [2**32 - 4] * 2
    assert thread_storage.at(0).address("[%rd1+-8]", "global")(SOME).tolist() == [-4, -4]


@pytest.mark.parametrize(
    ("use", "why"),
    [
        (lambda b: b.source("%r1", "u64"), "narrower"),
        (lambda b: b.source("%p1", "u32"), "in .u32"),
        (lambda b: b.source("nowhere", "u64"), "operand nowhere"),
        (lambda b: b.target("5", "u32"), "is not a register"),
        (lambda b: b.target("%h1", "u32"), "cannot hold"),
        (lambda b: b.address("[nowhere]", "shared"), "address"),
        (lambda b: b.address("[%r0, {%r1}]", "shared"), "address"),
        (lambda b: b.refuse("for this reason"), "for this reason"),
    ],
)
def test_operands_that_do_not_fit(use, why):
    with pytest.raises(UnsupportedInstruction, match=why):
        use(binder())


def test_a_decimal_number_needs_a_type():
    with pytest.raises(UnknownForm):
        binder().source("1.5", "b16")


def test_lanes_that_a_gate_names_but_that_are_elsewhere():
    thread_storage = storage("shfl.sync.idx.b32 %r0, %r1, 0, 31, %r2;")
    thread_storage.registers.array(0, "%r2")[:] = 0b1111
    current_lanes = Lanes(64, np.array([0, 1, 2, 3, 40]))
    alive = np.ones(64, bool)
    assert thread_storage.at(0).missing_lanes(current_lanes, alive).tolist() == [False, True]
    alive[32:40] = False  # lanes that have ended are not waited for
    assert thread_storage.at(0).missing_lanes(current_lanes, alive).tolist() == [False, False]


def test_arrays_that_an_operation_may_use_as_they_are():
    thread_storage = storage()
    held = thread_storage.registers.array(0, "%r1")
    binding = thread_storage.at(0)
    assert np.shares_memory(binding.simple("%r1", "s32"), held)
    assert np.shares_memory(binding.exact("%r1", "s32"), held)
    assert binding.simple("7", "u64").tolist() == [7]
    assert binding.exact(CARRY, "pred") is not None
    for text, t in (("%clock", "u32"), ("!%p1", "pred"), ("%rd1", "u32")):
        assert binding.simple(text, t) is None
    for text, t in (("_", "u32"), ("%rd1", "u32"), ("%p1", "u32"), ("%r1", "u16")):
        assert binding.exact(text, t) is None
