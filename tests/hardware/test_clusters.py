"""Clusters that a GPU holds at once: what the driver says, and the least that any distribution of SMs allows."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations_with_replacement

import pytest

from lab.hardware.clusters import clusters_held, clusters_likely
from lab.hardware.gpus import gpu_for

H200 = gpu_for("H200")


def test_without_clusters_the_sms_are_full():
    assert clusters_held(H200, 3, 1) == 3 * 132


@pytest.mark.parametrize("blocks_per_sm", [1, 2, 3])
@pytest.mark.parametrize("cluster", [2, 3, 4, 8, 16])
def test_no_distribution_of_sms_holds_fewer_than_the_least_and_one_holds_so_few(cluster, blocks_per_sm):
    gpu = replace(H200, sms=40, architecture=replace(H200.architecture, gpcs=4))
    pairs = [pick for pick in combinations_with_replacement(range(10), 4) if sum(pick) == 20]  # TPCs, up to 18 SMs
    held = [blocks_per_sm * sum(2 * tpcs // cluster for tpcs in pick) for pick in pairs]
    least = clusters_held(gpu, blocks_per_sm, cluster)
    assert least <= min(held)
    assert min(held) - least <= blocks_per_sm


def test_an_h200_holds_clusters_of_two_on_all_sms_and_at_least_29_of_four():
    assert clusters_held(H200, 1, 2) == 66
    assert clusters_held(H200, 1, 4) == 29
    assert clusters_held(H200, 2, 4) == 2 * 29


def test_the_driver_knows_better():
    card = replace(H200, clusters=((2, 66), (4, 30), (8, 15)))
    assert clusters_held(card, 1, 4) == 30
    assert clusters_held(card, 3, 8) == 3 * 15
    assert clusters_held(card, 2, 4) == 60  # such a card holds 62
    assert clusters_held(card, 3, 4) == 90  # and 92 here
    assert clusters_held(card, 1, 16) == clusters_held(H200, 1, 16)


def test_a_gpu_that_is_too_small_holds_none():
    assert clusters_held(replace(H200, sms=2), 1, 8) == 0
    assert clusters_held(H200, 0, 2) == 0


def test_without_the_driver_an_h200_is_taken_for_one_whose_driver_was_asked():
    said = {1: 132, 2: 66, 4: 30, 8: 15, 16: 7}
    assert {cluster: clusters_likely(H200, 1, cluster) for cluster in said} == said
    assert clusters_likely(H200, 3, 1) == 3 * 132
    told = replace(H200, clusters=((4, 31),))
    assert clusters_likely(told, 1, 4) == 31
    # of another GPU, the middle of 12 and 20 clusters
    other = replace(H200, sms=80)
    assert clusters_held(other, 1, 4) == 16
    assert clusters_likely(other, 1, 4) == (16 + 20) // 2


def test_blocks_of_a_cluster_have_an_sm_each():
    """Clusters of four leave two SMs of a GPC with 18 over, however many blocks an SM has room for."""
    assert clusters_likely(H200, 2, 4) == 2 * 30
    assert clusters_likely(replace(H200, clusters=((4, 31),)), 2, 4) == 2 * 31
