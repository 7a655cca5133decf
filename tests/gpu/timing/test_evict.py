"""The kernel that empties L2: its launch, played, and its code, emulated. It reads every byte and writes none."""

from __future__ import annotations

import numpy as np

from lab.emulator.api import launch
from lab.toolchain.own import build_own


def test_it_queues_one_launch_over_the_whole_buffer(cuda):
    from lab.gpu.timing.evict import reader  # noqa: PLC0415 - PyCUDA is played by now

    cuda.kernels["lab_read_all"] = lambda grid, *values: None
    read = reader("sm_90", 4096, 1000, cuda.Stream())
    assert cuda.launched == []
    read()
    assert cuda.loaded[0][:4] == b"\x7fELF"
    assert cuda.launched == [("lab_read_all", (1024, 1, 1), (256, 1, 1), 0, "PqP", (4096, 62, 4096))]


def test_the_kernel_reads_everything_and_writes_nothing(cuda):
    from lab.gpu.timing.evict import SOURCE  # noqa: PLC0415 - as above

    ptx = build_own(SOURCE, "evict.cu", "sm_90").ptx
    count = 3000
    data, never = np.arange(4 * count, dtype=np.uint32), np.zeros(1, np.uint32)
    done = launch(ptx, "lab_read_all", 12, 256, (data, np.int64(count), never))
    assert not done.findings
    assert done.counts is not None
    traffic = done.counts.memory
    assert traffic["global.load"].bytes_used == 16 * count
    assert "global.store" not in traffic or traffic["global.store"].requests == 0
