"""Addresses of a cluster's shared memory."""

import numpy as np
import pytest

from lab.emulator.batch import make_batch
from lab.emulator.lanes import Lanes
from lab.emulator.memory.memory import LOCAL_WINDOW, SHARED_WINDOW
from lab.emulator.memory.peers import (
    absent_block,
    in_cluster,
    names_peer,
    own_addresses,
    own_offsets,
    peer_address,
    peer_rows,
)

BATCH = make_batch((8, 1, 1), (32, 1, 1), 4, 4, cluster=(2, 1, 1))


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
    addresses = peer_address(np.zeros(3, np.uint32), np.array([0, 1, 2], np.uint32)).astype(np.int64)
    assert in_cluster(BATCH, addresses).tolist() == [True, True, False]


def test_a_threads_own_address_has_its_rank():
    addresses = own_addresses(BATCH, 16)
    assert addresses.shape == (128,)
    assert (addresses[[0, 32, 64, 127]] >> 24).tolist() == [1, 2, 1, 2]
    lanes = Lanes(128, np.array([0, 32, 64, 127]))
    plain = own_offsets(BATCH, lanes.select(addresses).astype(np.int64), lanes)
    assert plain.tolist() == [16] * 4


@pytest.mark.parametrize("window", [0, SHARED_WINDOW])
def test_addresses_of_others_keep_their_rank(window):
    ranks = np.array([0, 1, 2], np.uint32)  # the last is of no block of the cluster
    addresses = peer_address(np.full(3, 8, np.uint32), ranks).astype(np.int64) + window
    found = own_offsets(BATCH, addresses, Lanes(128, np.array([0, 0, 0])))
    assert found.tolist() == [8 + window, *addresses[1:].tolist()]


def test_addresses_elsewhere_are_left_alone():
    addresses = np.array([3, LOCAL_WINDOW + (1 << 24), (16 << 36) + (1 << 24)])
    assert own_offsets(BATCH, addresses, Lanes(128, np.array([0, 1, 2]))) is addresses


def test_a_block_that_is_absent_is_told_with_the_reason_of_launches_without_clusters():
    assert absent_block(BATCH) == "in a block that the cluster does not have"
    alone = make_batch((8, 1, 1), (32, 1, 1), 4, 4)
    assert "neither __cluster_dims__ nor the launch" in absent_block(alone)
