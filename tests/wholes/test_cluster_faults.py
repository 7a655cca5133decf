"""A cluster of real processes whose workers are killed."""

from __future__ import annotations

import operator
import os
import select
import signal
from concurrent.futures import wait
from dataclasses import replace
from pathlib import Path

import pytest
from real_cluster import RealCluster

from lab.base.errors import ClusterError
from lab.base.executor import WorkerLostError
from lab.cluster.client import SURVIVED, connected
from lab.cluster.cluster_executor import DaskExecutor
from lab.stages.build import BuildTask, build
from lab.toolchain.base import CompileRequest
from lab.toolchain.nvrtc.compiler import find_nvrtcs

pytest.importorskip("distributed")

KERNEL = CompileRequest('extern "C" __global__ void k(float *out) { out[threadIdx.x] = 1; }', "k.cu", "sm_90")


def kill_workers(cluster, besides=()):
    """Kill Dask's workers as soon as there are others than those of `besides`; return their process ids."""
    while True:
        cluster.forget_members()
        found = cluster.call_on(os.getpid, [member.address for member in cluster.members()])
        if fresh := set(found.values()) - set(besides):
            for process in fresh:
                os.kill(process, signal.SIGKILL)
            return fresh


def test_nothing_is_lost_with_workers_and_a_lost_scheduler_is_named(tmp_path) -> None:
    with RealCluster(tmp_path) as real, connected(real.address) as cluster, DaskExecutor(cluster) as executor:
        assert executor.workers == 2
        (compiler, *_) = find_nvrtcs()
        theirs = replace(compiler, library=Path("/theirs/libnvrtc.so"), header_folder=Path("/theirs/include"))
        built = executor.submit(build, [BuildTask(theirs, KERNEL, ("k",))], timeout_s=60)
        source = "x" * 100_000
        under_way = [executor.submit(select.select, [], [], [], 1.0, timeout_s=60) for _ in range(2)]
        waiting = [executor.submit(operator.concat, source, str(n), timeout_s=60) for n in range(20)]
        hangs = executor.submit(select.select, [], [], [], 100.0, timeout_s=0.2)
        dies = executor.submit(os._exit, 7, timeout_s=60)
        kill_workers(cluster)
        assert [one.result(timeout=120) for one in waiting] == [source + str(n) for n in range(20)]
        assert built.result(timeout=120)[0].build.cubin == compiler.compile(KERNEL).cubin
        assert not wait(under_way, timeout=120).not_done
        with pytest.raises(TimeoutError, match="stopped after"):
            hangs.result(timeout=120)
        with pytest.raises(WorkerLostError, match="exit code 7"):
            dies.result(timeout=120)
        left = executor.submit(select.select, [], [], [], 100.0, timeout_s=300)
        os.kill(real.scheduler.pid, signal.SIGKILL)
        with pytest.raises(ClusterError, match="was lost"):
            left.result(timeout=120)


@pytest.mark.thorough
def test_what_costs_three_workers_fails_and_the_cluster_goes_on(tmp_path) -> None:
    with RealCluster(tmp_path) as real, connected(real.address) as cluster, DaskExecutor(cluster) as executor:
        fatal = executor.submit(select.select, [], [], [], 100.0, timeout_s=300)
        killed: set[int] = set()
        for _ in range(SURVIVED + 1):
            while not any(cluster._client.processing().values()):
                pass
            killed |= kill_workers(cluster, killed)
        with pytest.raises(WorkerLostError, match="3 workers"):
            fatal.result(timeout=120)
        assert executor.submit(operator.add, 1, 2, timeout_s=60).result(timeout=120) == 3
