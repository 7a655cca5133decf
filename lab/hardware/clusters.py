"""How many clusters of blocks a GPU holds at once.

The blocks of a cluster run in one graphics processing cluster (GPC), a group of SMs. A GPU does not hold as many
clusters as its SMs have room for blocks: in each GPC, what is left over is less than a cluster. How SMs are distributed
over GPCs differs between cards of one product, since each has other SMs switched off: an H200 of 132 SMs holds 66
clusters of two blocks that fill an SM each, but 30 of four, and not 33. The driver of a card knows
(`cuOccupancyMaxActiveClusters`; `lab.gpu.device.residents` asks it). Without the card, the least number is taken that
any distribution allows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from lab.hardware.gpus import Gpu

_SMS_OF_TPC = 2
"""SMs are switched on and off in pairs (NVIDIA H100 Tensor Core GPU Architecture whitepaper: a TPC has two)."""


def clusters_held(gpu: Gpu, blocks_per_sm: int, cluster: int) -> int:
    """Return how many clusters of a kernel the GPU holds at once, or at least; 0 where it holds none.

    Args:
        gpu: The GPU. With `Gpu.clusters`, the driver's numbers decide, exactly for one block an SM.
        blocks_per_sm: Blocks of the kernel that an SM holds (`lab.hardware.occupancy.Occupancy.blocks_per_sm`).
        cluster: Blocks of a cluster; 1 for a kernel without clusters.

    Returns:
        Of several blocks an SM that many times what one allows: each block of a cluster has an SM of its own, so what
        is left over in a GPC stays so. An H200 that holds 30 clusters of four holds 62, 92 and 124 of blocks of which
        two, three and four fit an SM, and not 66, 99 and 132; of 63 the last waits for the others (launches of blocks
        that spin, driver 580; cuOccupancyMaxActiveClusters says so, too). Without the driver's numbers, the least over
        all distributions of the SMs: a GPC holds an even number s of SMs, so s modulo the cluster, which is left over,
        is a multiple of g = gcd(2, cluster), and at most cluster - g.
    """
    if cluster <= 1:
        return gpu.sms * blocks_per_sm
    told = dict(gpu.clusters).get(cluster)
    if told is None:
        left_over = cluster - math.gcd(_SMS_OF_TPC, cluster)
        told = max(0, (gpu.sms - gpu.architecture.gpcs * left_over) // cluster)
    return told * blocks_per_sm


def clusters_likely(gpu: Gpu, blocks_per_sm: int, cluster: int) -> int:
    """Return how many clusters of a kernel a GPU likely holds at once, where its own driver was not asked.

    Args:
        gpu: The GPU.
        blocks_per_sm: Blocks of the kernel that an SM holds.
        cluster: Blocks of a cluster; 1 for a kernel without clusters.

    Returns:
        What a card with a distribution of SMs that was found holds, or the middle of what any distribution allows, and
        of several blocks an SM as many times as many as of one (`clusters_held`).
    """
    if cluster <= 1:
        return gpu.sms * blocks_per_sm
    if gpu.sms in _FOUND and not gpu.clusters:
        return blocks_per_sm * sum(sms // cluster for sms in _FOUND[gpu.sms])
    least = clusters_held(gpu, 1, cluster)
    return blocks_per_sm * (least if gpu.clusters else (least + gpu.sms // cluster) // 2)


_FOUND: Final[Mapping[int, tuple[int, ...]]] = {132: (18, 18, 18, 18, 18, 16, 16, 10)}
"""SMs of each GPC of a card, by its SMs. With these, an H200 holds 66 clusters of two, 30 of four, 15 of eight and 7 of
sixteen blocks, as the driver of the cards of reports/h200 said; other cards may differ."""
