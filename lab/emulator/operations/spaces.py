"""State spaces in opcodes."""

from __future__ import annotations

from collections.abc import Callable

from lab.emulator.arrays import Addresses
from lab.emulator.lanes import Lanes
from lab.emulator.memory.memory import SHARED_WINDOW
from lab.emulator.opcodes import Opcode
from lab.emulator.operations.system import Site

PEERS = "shared::cluster"
"""The shared memory of all blocks of a cluster."""

_SPACES = ("global", "shared", "local", "const", "param", "shared::cta", "param::entry", "param::func")


def take_space(op: Opcode, default: str = "generic", *, peers: bool = False) -> str:
    """Consume the state space, with sub-spaces folded into their space, except an accepted `PEERS`."""
    if peers and op.flag(PEERS):
        return PEERS
    return op.one_of(_SPACES, default).split("::")[0]


def in_window(site: Site, text: str, space: str) -> tuple[str, Callable[[Lanes], Addresses]]:
    """Return an access's space and address function; `PEERS` addresses become generic."""
    if space != PEERS:
        return space, site.operands.address(text, space)
    within = site.operands.address(text, "shared")
    return "generic", lambda lanes: within(lanes) | SHARED_WINDOW
