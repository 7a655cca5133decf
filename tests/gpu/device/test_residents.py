"""The question after clusters that a card holds, put to a driver that is played."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace

import pytest

from lab.gpu.device import residents

HELD = {2: 66, 4: 30, 8: 14}


class Status(int):
    """A result code of the driver."""

    name = "CUDA_ERROR"


class Driver:
    """A card of compute capability `major` that holds the clusters of `HELD`."""

    def __init__(self, major):
        self.given_back = 0
        kinds = "COMPUTE_CAPABILITY_MAJOR", "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"
        self.CUdevice_attribute = SimpleNamespace(**{f"CU_DEVICE_ATTRIBUTE_{kind}": kind for kind in kinds})
        self.CUfunction_attribute = SimpleNamespace(
            CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8,
            CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED=14,
        )
        self.CUlaunchAttributeID = SimpleNamespace(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION=4)
        self.CUlaunchConfig = SimpleNamespace
        self._attributes = dict(zip(kinds, (major, 232448), strict=True))

    def CUlaunchAttribute(self):  # noqa: N802 - the driver's name
        return SimpleNamespace(value=SimpleNamespace(clusterDim=SimpleNamespace()))

    def cuDeviceGetAttribute(self, kind, device):  # noqa: N802
        return Status(0), self._attributes[kind]

    def cuOccupancyMaxActiveClusters(self, kernel, config):  # noqa: N802
        assert config.sharedMemBytes == 232448  # a block fills an SM
        size = config.attrs[0].value.clusterDim.x
        assert config.gridDimX % size == 0
        return (Status(0), HELD[size]) if size in HELD else (Status(1), 0)

    def cuDevicePrimaryCtxRelease(self, device):  # noqa: N802
        self.given_back += 1
        return (Status(0),)

    def __getattr__(self, name):
        def some(*given):
            return Status(0), name

        some.__name__ = name
        return some


@pytest.fixture
def put(monkeypatch):
    def put(driver):
        monkeypatch.setattr(residents, "driver_api", lambda: driver)
        return driver

    return put


def test_sizes_that_the_card_holds_are_told(put):
    driver = put(Driver(9))
    assert residents.asked(0) == tuple(HELD.items())
    assert driver.given_back == 1


def test_older_cards_have_no_clusters(put):
    driver = put(Driver(8))
    assert residents.asked(0) == ()
    assert driver.given_back == 0


@pytest.mark.parametrize(
    ("answer", "found"),
    [("[[2, 66], [4, 30]]", ((2, 66), (4, 30))), ("", ()), ("[3]", ()), (None, ())],
)
def test_a_process_of_its_own_asks(monkeypatch, answer, found):
    def run(command, **options):
        assert command[1:] == ["-m", "lab.gpu.device.residents", "1"]
        if answer is None:
            raise subprocess.CalledProcessError(1, command)
        return subprocess.CompletedProcess(command, 0, answer, "")

    monkeypatch.setattr(subprocess, "run", run)
    assert residents.clusters_of.__wrapped__(1) == found
