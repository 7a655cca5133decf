"""Sizes that all NVIDIA GPUs so far share: the warp, shared-memory banks, sectors and lines of the caches.

Source: PTX ISA, `WARP_SZ`; CUDA C++ Best Practices Guide, "Shared Memory and Memory Banks" and "Coalesced Access to
Global Memory".
"""

from __future__ import annotations

from typing import Final

WARP_SIZE: Final = 32
"""Threads of a warp."""

BANKS: Final = 32
"""Banks of shared memory."""

BANK_BYTES: Final = 4
"""Bytes that a bank of shared memory delivers in one wavefront."""

SECTOR_BYTES: Final = 32
"""Bytes of a sector, the smallest unit in which global memory is read or written."""

LINE_BYTES: Final = 128
"""Bytes of a cache line, four sectors."""
