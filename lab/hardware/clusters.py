"""Number of thread block clusters resident on a GPU.

The blocks of a cluster run in one graphics processing cluster (GPC), a group of SMs. A GPU holds fewer clusters than
its SMs have room for blocks, since each GPC may have SMs left over, fewer than a cluster needs. The distribution of
SMs over GPCs differs between cards of one product, since different SMs are disabled: an H200 with 132 SMs holds 66
clusters of two blocks that fill an SM each, but only 30 of four instead of 33. The driver of a card knows the number
(`cuOccupancyMaxActiveClusters`; see `lab.gpu.device.residents`). Without the card, the minimum over all distributions
is used.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from lab.hardware.gpus import Gpu

_SMS_OF_TPC = 2
"""SMs per TPC; SMs are enabled and disabled in these pairs (NVIDIA H100 Tensor Core GPU Architecture whitepaper)."""


def clusters_held(gpu: Gpu, blocks_per_sm: int, cluster: int) -> int:
    """Return the (minimum) number of clusters of a kernel resident on the GPU; 0 if none fits.

    Args:
        gpu: The GPU. With `Gpu.clusters`, the driver's numbers are used; they are exact for one block per SM.
        blocks_per_sm: Blocks of the kernel that an SM holds (`lab.hardware.occupancy.Occupancy.blocks_per_sm`).
        cluster: Blocks of a cluster; 1 for a kernel without clusters.

    Returns:
        With several blocks per SM, that multiple of the number for one: each block of a cluster has an SM of its own,
        so the SMs left over in a GPC stay unused. An H200 that holds 30 clusters of four with one block per SM holds
        62, 92 and 124 with two, three and four, not 66, 99 and 132; of 63 the last waits for the others (launches of
        blocks that spin, driver 580; cuOccupancyMaxActiveClusters agrees). Without the driver's numbers, the minimum
        over all distributions of the SMs: a GPC has an even number s of SMs, so s modulo the cluster, the number left
        over, is a multiple of g = gcd(2, cluster), and at most cluster - g.
    """
    if cluster <= 1:
        return gpu.sms * blocks_per_sm
    clusters = dict(gpu.clusters).get(cluster)
    if clusters is None:
        left_over = cluster - math.gcd(_SMS_OF_TPC, cluster)
        clusters = max(0, (gpu.sms - gpu.architecture.gpcs * left_over) // cluster)
    return clusters * blocks_per_sm


def clusters_likely(gpu: Gpu, blocks_per_sm: int, cluster: int) -> int:
    """Return the likely number of clusters of a kernel resident on a GPU whose driver was not queried.

    Args:
        gpu: The GPU.
        blocks_per_sm: Blocks of the kernel that an SM holds.
        cluster: Blocks of a cluster; 1 for a kernel without clusters.

    Returns:
        The number for a known distribution of SMs over GPCs, or else the midpoint of the possible numbers; multiplied
        by the blocks per SM (see `clusters_held`).
    """
    if cluster <= 1:
        return gpu.sms * blocks_per_sm
    if gpu.sms in _FOUND and not gpu.clusters:
        return blocks_per_sm * sum(sms // cluster for sms in _FOUND[gpu.sms])
    least = clusters_held(gpu, 1, cluster)
    return blocks_per_sm * (least if gpu.clusters else (least + gpu.sms // cluster) // 2)


_FOUND: Final[Mapping[int, tuple[int, ...]]] = {132: (18, 18, 18, 18, 18, 16, 16, 10)}
"""SMs of each GPC of one card, by its SM count."""
