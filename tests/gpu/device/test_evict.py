"""The kernel that empties L2, executed on the CPU: it reads every byte and writes none."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from lab.emulator.api import launch


@pytest.fixture
def evict(monkeypatch):
    """The module, with a PyCUDA that is played: `.launched` has what was queued, `.cubins` what was loaded."""
    launched, cubins = [], []

    def function(name):
        return SimpleNamespace(
            prepare=lambda codes: launched.append((name, codes)),
            prepared_async_call=lambda *arguments: launched.append(arguments),
        )

    driver = ModuleType("pycuda.driver")
    driver.module_from_buffer = lambda cubin: cubins.append(cubin) or SimpleNamespace(get_function=function)
    package = ModuleType("pycuda")
    package.driver = driver
    monkeypatch.setitem(sys.modules, "pycuda", package)
    monkeypatch.setitem(sys.modules, "pycuda.driver", driver)
    monkeypatch.delitem(sys.modules, "lab.gpu.device.evict", raising=False)
    import lab.gpu.device.evict as made  # noqa: PLC0415 - PyCUDA is played by now

    yield SimpleNamespace(reader=made.reader, source=made._SOURCE, launched=launched, cubins=cubins)
    sys.modules.pop("lab.gpu.device.evict")


def test_it_queues_one_launch_over_the_whole_buffer(evict):
    read = evict.reader("sm_90", 4096, 1000, "stream")
    read()
    assert evict.cubins[0][:4] == b"\x7fELF"
    prepared, (grid, block, stream, *values) = evict.launched
    assert prepared == ("lab_read_all", "PqP")
    assert (grid, block, stream, values) == ((1024, 1, 1), (256, 1, 1), "stream", [4096, 62, 4096])


def test_the_kernel_reads_everything_and_writes_nothing(evict):
    from lab.toolchain.base import CompileRequest  # noqa: PLC0415 - as above
    from lab.toolchain.select import toolchain  # noqa: PLC0415 - as above

    ptx = toolchain("nvrtc").compile(CompileRequest(evict.source, "evict.cu", "sm_90")).ptx
    count = 3000
    data, never = np.arange(4 * count, dtype=np.uint32), np.zeros(1, np.uint32)
    done = launch(ptx, "lab_read_all", 12, 256, (data, np.int64(count), never))
    traffic = done.counts.memory
    assert not done.findings
    assert traffic["global.load"].bytes_used == 16 * count
    assert "global.store" not in traffic or traffic["global.store"].requests == 0
