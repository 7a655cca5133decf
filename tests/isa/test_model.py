from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from lab.isa.classes import TABLES
from lab.isa.model import Function, Instruction, InstructionClass, Module, Variable


def test_kernels_are_the_entries_in_listing_order() -> None:
    functions = tuple(Function(name, entry, ()) for name, entry in (("b", True), ("helper", False), ("a", True)))
    module = Module("ptx", "9.0", "sm_90", functions)
    assert [kernel.name for kernel in module.kernels] == ["b", "a"]


def test_a_function_cannot_change() -> None:
    with pytest.raises(FrozenInstanceError):
        Function("k", entry=True, instructions=()).name = "other"  # type: ignore[misc]  # that is the test


def test_every_class_occurs_in_a_table() -> None:
    named = {found for table in TABLES.values() for found in table.values() if isinstance(found, InstructionClass)}
    by_rule = {"ld.global", "ld.shared", "ld.local", "ld.const", "st.global", "st.shared", "st.local", "cp.async"}
    assert {cls.value for cls in InstructionClass} - {cls.value for cls in named} <= by_rule


def test_what_is_not_said_of_a_variable_or_an_instruction() -> None:
    plain = Variable("x", "reg", "f32")
    assert (plain.count, plain.align, plain.vector, plain.initial) == (1, None, 1, ())
    assert (plain.parameterised, plain.external, plain.pointer) == (False, False, False)
    one = Instruction(0, 1, "ret", (), None, negated=False, cls=InstructionClass.BRANCH)
    assert (one.targets, one.falls_through, one.source, one.address, one.live_registers) == ((), True, None, None, None)
