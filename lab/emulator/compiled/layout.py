"""The data layout shared by machine code and host: fields of a worker's context and a warp's state."""

from __future__ import annotations

FIELDS = (
    "params", "table", "segments", "shared", "shared_bytes", "local", "counts", "sites", "tids", "exists", "states",
    "callback", "copied", "stop", "fuel", "warps", "dynamic_bytes", "ntid_x", "ntid_y", "ntid_z", "nctaid_x",
    "nctaid_y", "nctaid_z", "ctaid_x", "ctaid_y", "ctaid_z", "writes", "reads", "pending", "local_written",
    "shadow_bytes", "time", "since", "begun", "visible", "groups", "first", "suspects", "chunks", "chunk_bytes",
)  # fmt: skip
"""Context fields, one i64 each: pointers, sizes, the current block, and the state of race checks."""

CONTEXT = {name: 8 * i for i, name in enumerate(FIELDS)}
"""The byte offset of each context field."""

PLACES, ALIVE, WAITING, PARKED, BARRIER = 0, 128, 132, 136, 140
"""Byte offsets in a warp's state: the rank of each lane's next block (32 i32), and as i32 the live lanes, those waiting
at a barrier, those waiting for other lanes of the warp, and the barrier instruction."""

MET, COMMITTED, COMPLETED, COPIED = 144, 148, 152, 156
"""Offsets of i32 fields for checked launches: the time of the last `__syncwarp`, the latest cp.async group, the latest
one waited for, and the latest one with a copy."""

REGISTERS = 256
"""The byte offset of the registers in a warp's state."""

NOWHERE = 0x7FFFFFFF
"""A rank after every block."""

ENDED, WAITS, FAULT, PARTED, SPINS, STOPPED = range(6)
"""Return values of a warp's code: all lanes have exited; they wait at a barrier; a faulting access or instruction,
which the interpreter must diagnose; lanes that wait forever for others; too many loop iterations; `stop` was set."""

ROUNDS_BETWEEN_LOOKS = 1 << 16
"""The back edges between checks of `stop`, a power of two: some milliseconds."""
