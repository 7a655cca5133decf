"""Addresses of `shared::cluster`: the shared memory of the blocks of a cluster.

An address is an offset in a block's shared memory, with the block's rank in the cluster, plus 1, above bit
`RANK_SHIFT`. Zero bits there mean the thread's own block. PTX leaves the encoding open; this one is specific to the
emulator.

In a cluster, the addresses of a thread's own variables contain the block's rank too, as on hardware (Hopper's code for
the address of a shared variable adds %cluster_ctarank << 24). So code that treats an address as an offset is detected.
"""

from __future__ import annotations

import numpy as np

from lab.emulator.arrays import Addresses, Indices, Mask, Words
from lab.emulator.batch import Batch
from lab.emulator.lanes import Lanes
from lab.emulator.memory.memory import SEGMENT_SHIFT, SHARED_SEGMENT, WITHIN_SEGMENT

RANK_SHIFT = 24
"""The lowest bit of the rank: a block's shared memory is far smaller than 16 MiB."""

WITHIN_BLOCK = (1 << RANK_SHIFT) - 1
"""The bits of an address that hold the offset in a block's shared memory."""


def absent_block(batch: Batch) -> str:
    """Return the message for an access to a block outside the thread's cluster."""
    none = "; neither __cluster_dims__ nor the launch makes clusters" if batch.cluster == 1 else ""
    return f"in a block that the cluster does not have{none}"


def peer_address(offsets: Words, ranks: Words) -> Words:
    """Return the addresses of offsets in the shared memory of blocks by rank, (count,) each."""
    return (offsets & np.uint32(WITHIN_BLOCK)) | ((ranks + np.uint32(1)) << np.uint32(RANK_SHIFT))


def own_addresses(batch: Batch, offset: int) -> Words:
    """Return each thread's address of an offset in its own block's shared memory, (threads,)."""
    ranks = (batch.block_of % batch.cluster).astype(np.uint32)
    return peer_address(np.full(batch.threads, offset, np.uint32), ranks)


def own_offsets(batch: Batch, addresses: Addresses, lanes: Lanes) -> Addresses:
    """Return addresses, with those in a thread's own block converted to plain offsets.

    Args:
        batch: The threads.
        addresses: (count,) addresses in `shared::cluster`, or generic ones.
        lanes: The threads that use them.
    """
    within = addresses & WITHIN_SEGMENT
    ranked = ((addresses == within) | (addresses >> SEGMENT_SHIFT == SHARED_SEGMENT)) & (within >> RANK_SHIFT != 0)
    if not ranked.any():
        return addresses
    own = lanes.select(batch.block_of) % batch.cluster + 1
    mine = ranked & (within >> RANK_SHIFT == own)
    return np.where(mine, addresses - (own << RANK_SHIFT), addresses)


def names_peer(addresses: Addresses) -> bool:
    """Return whether any of some addresses contains a block's rank."""
    return bool(len(addresses)) and bool(int(addresses.max()) >> RANK_SHIFT)


def in_cluster(batch: Batch, addresses: Addresses) -> Mask:
    """Return which (count,) addresses in `shared::cluster` are in an existing block of the cluster."""
    valid: Mask = (addresses >> RANK_SHIFT) <= batch.cluster
    return valid


def peer_rows(batch: Batch, addresses: Addresses, lanes: Lanes) -> tuple[Addresses, Indices]:
    """Return each address's offset in a block's shared memory, and its block in the batch.

    Args:
        batch: The threads.
        addresses: (count,) addresses in `shared::cluster`, each `in_cluster`.
        lanes: The threads that use them.
    """
    own = lanes.select(batch.block_of)
    ranks, offsets = (addresses >> RANK_SHIFT) - 1, addresses & WITHIN_BLOCK
    return offsets, np.where(ranks < 0, own, own - own % batch.cluster + ranks)
