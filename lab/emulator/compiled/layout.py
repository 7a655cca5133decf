"""What machine code and its host share: the fields of a worker's context and of a warp's state."""

from __future__ import annotations

FIELDS = (
    "params", "table", "segments", "shared", "shared_bytes", "local", "counts", "sites", "tids", "exists", "states",
    "callback", "copied", "stop", "fuel", "warps", "dynamic_bytes", "ntid_x", "ntid_y", "ntid_z", "nctaid_x",
    "nctaid_y", "nctaid_z", "ctaid_x", "ctaid_y", "ctaid_z",
)  # fmt: skip
"""The context is one i64 for each of these: pointers, sizes, and the place of the block that runs."""

CONTEXT = {name: 8 * i for i, name in enumerate(FIELDS)}
"""Byte offset of each field of the context."""

PLACES, ALIVE, WAITING, PARKED, BARRIER = 0, 128, 132, 136, 140
"""Byte offsets in a warp's state: the rank of the block at which each lane goes on (32 i32), and as i32 the lanes that
have not ended, that wait at a barrier, that wait for other lanes of the warp, and the barrier instruction."""

REGISTERS = 256
"""Byte offset in a warp's state at which its registers begin."""

NOWHERE = 0x7FFFFFFF
"""A rank after every block."""

ENDED, WAITS, FAULT, PARTED, SPINS = range(5)
"""What the code of a warp returns: all lanes have ended, or wait at a barrier; an access or an instruction at which the
interpreter must tell what is wrong; lanes that wait for others in vain; more rounds of loops than a launch may take."""
