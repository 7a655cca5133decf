"""What machine code and its host share: the fields of a worker's context and of a warp's state."""

from __future__ import annotations

FIELDS = (
    "params", "table", "segments", "shared", "shared_bytes", "local", "counts", "sites", "tids", "exists", "states",
    "callback", "copied", "stop", "fuel", "warps", "dynamic_bytes", "ntid_x", "ntid_y", "ntid_z", "nctaid_x",
    "nctaid_y", "nctaid_z", "ctaid_x", "ctaid_y", "ctaid_z", "writes", "reads", "pending", "local_written",
    "shadow_bytes", "time", "since", "begun", "visible", "groups", "first", "suspects", "chunks", "chunk_bytes",
)  # fmt: skip
"""The context is one i64 for each of these: pointers, sizes, the place of the block that runs, and what a watched
launch needs: the cells of shared memory, its times (see `lab.emulator.compiled.shadows`), the groups of cp.async
that every thread sees, the number of the block's first thread, and whether something was suspicious. Atomics that are
counted note the chunks of global memory that they touch."""

CONTEXT = {name: 8 * i for i, name in enumerate(FIELDS)}
"""Byte offset of each field of the context."""

PLACES, ALIVE, WAITING, PARKED, BARRIER = 0, 128, 132, 136, 140
"""Byte offsets in a warp's state: the rank of the block at which each lane goes on (32 i32), and as i32 the lanes that
have not ended, that wait at a barrier, that wait for other lanes of the warp, and the barrier instruction."""

MET, COMMITTED, COMPLETED, COPIED = 144, 148, 152, 156
"""As i32, what a watched launch needs of a warp: the time of the last `__syncwarp`, the latest group of cp.async, the
latest one that was waited for, and the latest one that holds a copy."""

REGISTERS = 256
"""Byte offset in a warp's state at which its registers begin."""

NOWHERE = 0x7FFFFFFF
"""A rank after every block."""

ENDED, WAITS, FAULT, PARTED, SPINS, STOPPED = range(6)
"""What the code of a warp returns: all lanes have ended, or wait at a barrier; an access or an instruction at which the
interpreter must tell what is wrong; lanes that wait for others in vain; more rounds of loops than a launch may take;
`stop` was set."""

ROUNDS_BETWEEN_LOOKS = 1 << 16
"""Back-edges from one look at `stop` to the next, a power of two. Some milliseconds."""
