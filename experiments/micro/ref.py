"""What atomics.cu computes."""

import numpy as np


def _mixed(x):
    x = ((x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D)).astype(np.uint32)
    x = ((x ^ (x >> np.uint32(15))) * np.uint32(0x846CA68B)).astype(np.uint32)
    return x ^ (x >> np.uint32(16))


def _chosen(updates, counters, together):
    update = np.arange(updates, dtype=np.uint32)
    if together:
        return _mixed(update // np.uint32(32)) % np.uint32(counters // 32) * np.uint32(32) + update % np.uint32(32)
    return _mixed(update) % np.uint32(counters)


def global_sums(updates, counters, spread, together):
    """How often each counter was chosen, (counters * spread,)."""
    sums = np.zeros(counters * spread, np.uint32)
    sums[::spread] = np.bincount(_chosen(updates, counters, together), minlength=counters)
    return {"sums": sums}


def shared_sums(updates, per_thread, counters, spread, together):
    """The same for each block, (blocks, counters * spread)."""
    each = 256 * per_thread
    block = np.arange(updates) // each
    flat = block * counters + _chosen(updates, counters, together)
    sums = np.zeros((updates // each, counters * spread), np.uint32)
    sums[:, ::spread] = np.bincount(flat, minlength=updates // each * counters).reshape(-1, counters)
    return {"sums": sums}
