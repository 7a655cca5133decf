"""Sizes shared by all NVIDIA GPUs so far: the warp, shared-memory banks, cache sectors and cache lines.

Source: PTX ISA, `WARP_SZ`; CUDA C++ Best Practices Guide, "Shared Memory and Memory Banks" and "Coalesced Access to
Global Memory".
"""

from __future__ import annotations

from typing import Final

WARP_SIZE: Final = 32
"""Threads per warp."""

BANKS: Final = 32
"""Number of shared-memory banks."""

BANK_BYTES: Final = 4
"""Bytes that a shared-memory bank delivers per wavefront."""

SECTOR_BYTES: Final = 32
"""Bytes of a sector, the smallest unit of a global-memory access."""

LINE_BYTES: Final = 128
"""Bytes of a cache line, four sectors."""
