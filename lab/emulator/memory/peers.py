"""Addresses of `shared::cluster`: the shared memory of another block of the cluster.

An address is an offset in a block's shared memory, with the block's rank in the cluster, plus 1, above bit
`RANK_SHIFT`. A rank of 0 there means the block of the thread itself. PTX leaves the encoding open; this one is the
emulator's own.
"""

from __future__ import annotations

import numpy as np

from lab.base.errors import UserError
from lab.emulator.arrays import Addresses, Indices, Words
from lab.emulator.batch import Batch
from lab.emulator.lanes import Lanes

RANK_SHIFT = 24
"""The least bit of the rank: a block's shared memory is far smaller than 16 MiB."""

WITHIN_BLOCK = (1 << RANK_SHIFT) - 1
"""The bits of an address that are an offset in a block's shared memory."""


def peer_address(offsets: Words, ranks: Words) -> Words:
    """Return the addresses of offsets in the shared memory of the blocks of some ranks, (count,) each."""
    return (offsets & np.uint32(WITHIN_BLOCK)) | ((ranks + np.uint32(1)) << np.uint32(RANK_SHIFT))


def names_peer(addresses: Addresses) -> bool:
    """Return whether one of some addresses is not simply an offset in the thread's own block."""
    return bool(len(addresses)) and bool(int(addresses.max()) >> RANK_SHIFT)


def peer_rows(batch: Batch, addresses: Addresses, lanes: Lanes) -> tuple[Addresses, Indices]:
    """Return the offset in a block's shared memory, and the block of the batch, of each address.

    Args:
        batch: The threads.
        addresses: (count,) addresses in `shared::cluster`.
        lanes: The threads that use them.

    Raises:
        UserError: an address names no block of the cluster.
    """
    own = lanes.select(batch.block_of)
    ranks, offsets = (addresses >> RANK_SHIFT) - 1, addresses & WITHIN_BLOCK
    if int(ranks.max()) >= batch.cluster:
        raise UserError(
            "an address in shared::cluster names no block of the cluster",
            found=int(ranks.max()),
            accepted=f"ranks from 0 to {batch.cluster - 1}",
        )
    return offsets, np.where(ranks < 0, own, own - own % batch.cluster + ranks)
