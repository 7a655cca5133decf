"""State spaces as opcodes name them."""

from __future__ import annotations

from lab.emulator.opcodes import Opcode

_SPACES = ("global", "shared", "local", "const", "param", "shared::cta", "param::entry", "param::func")


def take_space(op: Opcode, default: str = "generic") -> str:
    """Take the state space; sub-spaces are folded into their space."""
    return op.one_of(_SPACES, default).split("::")[0]
