"""Addresses of a cluster's shared memory."""

import numpy as np
import pytest

from lab.base.errors import UserError
from lab.emulator.batch import make_batch
from lab.emulator.lanes import Lanes
from lab.emulator.memory.peers import names_peer, peer_address, peer_rows

BATCH = make_batch((8, 1, 1), (32, 1, 1), 4, 4, cluster=2)


def test_an_address_holds_offset_and_rank():
    addresses = peer_address(np.array([16, 20], np.uint32), np.array([1], np.uint32)).astype(np.int64)
    lanes = Lanes(128, np.array([0, 64]))
    offsets, rows = peer_rows(BATCH, addresses, lanes)
    assert offsets.tolist() == [16, 20]
    assert rows.tolist() == [1, 3]  # the second block of each thread's own cluster
    assert names_peer(addresses)


def test_a_plain_offset_means_the_own_block():
    offsets, rows = peer_rows(BATCH, np.array([8, 8]), Lanes(128, np.array([40, 100])))
    assert (offsets.tolist(), rows.tolist()) == ([8, 8], [1, 3])
    assert not names_peer(np.array([8, 8]))
    assert not names_peer(np.zeros(0, np.int64))


def test_mapping_an_address_again_replaces_its_rank():
    first = peer_address(np.array([16], np.uint32), np.array([0], np.uint32))
    again = peer_address(first, np.array([1], np.uint32)).astype(np.int64)
    assert peer_rows(BATCH, again, Lanes(128, np.array([0])))[1].tolist() == [1]


def test_a_rank_beyond_the_cluster():
    address = peer_address(np.array([0], np.uint32), np.array([2], np.uint32)).astype(np.int64)
    with pytest.raises(UserError) as error:
        peer_rows(BATCH, address, Lanes(128, np.array([0])))
    assert (error.value.found, error.value.accepted) == (2, "ranks from 0 to 1")
