"""Maximum resident clusters of a card, by cluster size, from the driver (`cuOccupancyMaxActiveClusters`).

The query needs a context, which the calling process should not create because it never launches anything. So a
separate process runs the query, once per card.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from typing import Any, Final

from lab.base.workers import environment
from lab.gpu.device.driver_bindings import call, driver_api

SIZES: Final = (2, 4, 8, 16)
"""Cluster sizes in blocks; 16 needs a kernel that allows non-portable cluster sizes."""

_FIRST: Final = 9
"""The first compute capability with clusters."""

_WAIT_S: Final = 60.0

_KERNEL: Final = """.version 7.8
.target sm_90
.address_size 64
.visible .entry nothing() { ret; }
"""


@cache
def clusters_of(ordinal: int) -> tuple[tuple[int, int], ...]:
    """Query a device's maximum resident clusters in another process.

    Returns:
        Pairs of cluster size in blocks and maximum resident clusters, with one block per SM. Empty if the device has no
        clusters or the driver does not answer.
    """
    command = [sys.executable, "-m", "lab.gpu.device.residents", str(ordinal)]
    try:
        completed = subprocess.run(
            command, capture_output=True, text=True, timeout=_WAIT_S, check=True, env=environment()
        )
        return tuple((int(size), int(number)) for size, number in json.loads(completed.stdout))
    except (OSError, subprocess.SubprocessError, ValueError, TypeError):
        return ()  # callers fall back to the number that any card holds


def asked(ordinal: int) -> tuple[tuple[int, int], ...]:
    """Query the driver in this process, in the device's primary context, which is released again.

    Raises:
        RuntimeError: There is no driver or no such device, or a call fails.
    """
    driver = driver_api()
    device = call(driver.cuDeviceGet, ordinal)
    kinds = driver.CUdevice_attribute
    if call(driver.cuDeviceGetAttribute, kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) < _FIRST:
        return ()
    shared_bytes = call(
        driver.cuDeviceGetAttribute, kinds.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device
    )
    call(driver.cuCtxSetCurrent, call(driver.cuDevicePrimaryCtxRetain, device))
    try:
        kernel = call(driver.cuModuleGetFunction, call(driver.cuModuleLoadData, _KERNEL.encode() + b"\0"), b"nothing")
        attributes = driver.CUfunction_attribute
        call(
            driver.cuFuncSetAttribute, kernel, attributes.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes
        )
        call(driver.cuFuncSetAttribute, kernel, attributes.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)
        counts = ((size, _held(driver, kernel, size, shared_bytes)) for size in SIZES)
        return tuple((size, number) for size, number in counts if number)
    finally:
        call(driver.cuDevicePrimaryCtxRelease, device)


def _held(driver: Any, kernel: object, size: int, shared_bytes: int) -> int:  # noqa: ANN401 - the bindings have no types of ours
    """Return the maximum resident clusters of blocks that use an SM's shared memory each; 0 if none can run."""
    attribute = driver.CUlaunchAttribute()
    attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    shape = attribute.value.clusterDim
    shape.x, shape.y, shape.z = size, 1, 1
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = size, 1, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = 128, 1, 1
    config.sharedMemBytes = shared_bytes
    config.attrs, config.numAttrs = [attribute], 1
    try:
        return int(call(driver.cuOccupancyMaxActiveClusters, kernel, config))
    except RuntimeError:
        return 0


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asked(int(sys.argv[1]))))
