"""State spaces of opcodes."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from lab.emulator.memory.memory import SHARED_WINDOW
from lab.emulator.opcodes import Opcode
from lab.emulator.operations.spaces import PEERS, in_window, take_space


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


def test_peers_are_kept_apart_where_they_are_accepted():
    op = Opcode("ld.shared::cluster.u32")
    assert take_space(op, peers=True) == PEERS
    assert op.parts == ["u32"]
    assert take_space(Opcode("ld.shared.u32"), peers=True) == "shared"


@pytest.mark.parametrize(
    ("space", "wanted", "start"),
    [("shared", "shared", 0), ("global", "global", 0), (PEERS, "generic", SHARED_WINDOW)],
)
def test_addresses_of_peers_are_generic_ones(space, wanted, start):
    resolved = []

    def address(text, within):
        resolved.append((text, within))
        return lambda lanes: lanes

    site = cast("Any", SimpleNamespace(operands=SimpleNamespace(address=address)))
    found, addresses = in_window(site, "[%r1]", space)
    assert found == wanted
    assert resolved == [("[%r1]", "shared" if space == PEERS else space)]
    lanes = cast("Any", np.array([16, (2 << 24) + 4]))
    assert addresses(lanes).tolist() == [start + 16, start + (2 << 24) + 4]
