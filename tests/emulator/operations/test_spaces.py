"""State spaces of opcodes."""

import pytest

from lab.emulator.opcodes import Opcode
from lab.emulator.operations.spaces import take_space


@pytest.mark.parametrize(
    ("opcode", "space", "left"),
    [
        ("ld.global.u32", "global", ["u32"]),
        ("ld.shared::cta.v2.u32", "shared", ["v2", "u32"]),
        ("ld.param::entry.u64", "param", ["u64"]),
        ("ld.f32", "generic", ["f32"]),
        ("ld.shared::cluster.u32", "generic", ["shared::cluster", "u32"]),
    ],
)
def test_the_space_is_taken_and_nothing_else(opcode, space, left):
    op = Opcode(opcode)
    assert take_space(op) == space
    assert op.parts == left


def test_the_default_can_be_chosen():
    assert take_space(Opcode("ld.u32"), "global") == "global"
