"""How many clusters of blocks a card holds at once, by size, as its driver says (`cuOccupancyMaxActiveClusters`).

That needs a context, which the process that asks should not have, since it never launches anything: a process of its
own asks, once a card.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from typing import Any, Final

from lab.base.workers import environment
from lab.gpu.device.driver import call, driver_api

SIZES: Final = (2, 4, 8, 16)
"""Blocks of a cluster; those of 16 need a kernel that allows sizes which not every GPU has."""

_FIRST: Final = 9
"""The compute capability that brought clusters."""

_WAIT_S: Final = 60.0

_KERNEL: Final = """.version 7.8
.target sm_90
.address_size 64
.visible .entry nothing() { ret; }
"""


@cache
def clusters_of(ordinal: int) -> tuple[tuple[int, int], ...]:
    """Ask a device's driver, in another process.

    Returns:
        Blocks of a cluster and how many such clusters the device holds at once, with one block an SM. Empty where the
        device has no clusters or the driver does not answer.
    """
    command = [sys.executable, "-m", "lab.gpu.device.residents", str(ordinal)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_WAIT_S, check=True, env=environment())
        return tuple((int(size), int(number)) for size, number in json.loads(done.stdout))
    except (OSError, subprocess.SubprocessError, ValueError, TypeError):
        return ()  # the number that any card holds is taken instead


def asked(ordinal: int) -> tuple[tuple[int, int], ...]:
    """Ask the driver in this process, in the device's primary context, which is given back.

    Raises:
        RuntimeError: There is no driver or no such device, or a call fails.
    """
    driver = driver_api()
    device = call(driver.cuDeviceGet, ordinal)
    kinds = driver.CUdevice_attribute
    if call(driver.cuDeviceGetAttribute, kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) < _FIRST:
        return ()
    room = call(driver.cuDeviceGetAttribute, kinds.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device)
    call(driver.cuCtxSetCurrent, call(driver.cuDevicePrimaryCtxRetain, device))
    try:
        kernel = call(driver.cuModuleGetFunction, call(driver.cuModuleLoadData, _KERNEL.encode() + b"\0"), b"nothing")
        wanted = driver.CUfunction_attribute
        call(driver.cuFuncSetAttribute, kernel, wanted.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, room)
        call(driver.cuFuncSetAttribute, kernel, wanted.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)
        found = ((size, _held(driver, kernel, size, room)) for size in SIZES)
        return tuple((size, number) for size, number in found if number)
    finally:
        call(driver.cuDevicePrimaryCtxRelease, device)


def _held(driver: Any, kernel: object, size: int, room: int) -> int:  # noqa: ANN401 - the bindings have no types of ours
    """Return how many clusters are held of blocks that have an SM's shared memory each; 0 where there cannot be any."""
    attribute = driver.CUlaunchAttribute()
    attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    shape = attribute.value.clusterDim
    shape.x, shape.y, shape.z = size, 1, 1
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = size, 1, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = 128, 1, 1
    config.sharedMemBytes = room
    config.attrs, config.numAttrs = [attribute], 1
    try:
        return int(call(driver.cuOccupancyMaxActiveClusters, kernel, config))
    except RuntimeError:
        return 0


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asked(int(sys.argv[1]))))
