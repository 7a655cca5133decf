"""Whole commands on a cluster of real processes: two clients at once, a host that vanishes, a batch system."""

from __future__ import annotations

import contextlib
import csv
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from real_cluster import RealCluster

from lab.base import workers
from lab.cluster.client import connected

pytest.importorskip("distributed")

SOURCE = """__global__ void scale(float *out, const float *in, int n) {
    int i = blockIdx.x * block + threadIdx.x;
    if (i < n) out[i] = 2 * in[i];
}
"""
EXPERIMENT = """question: Does it?
source: scale.cu
problem: {n: 1000}
emulate: {n: 1000}
arguments: {out: "out float32[n]", in: "float32[n]", n: int32}
parameters: {block: [32, 64, 128, 256]}
grid: ["ceil(n / block)"]
block: [block]
reference: {out: "2 * in"}
archs: [sm_90]
toolchains: [nvrtc]
"""
OF_THIS_RUN = {"compile_seconds", "folder"}


@pytest.fixture(scope="module")
def experiment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    (folder / "scale.cu").write_text(SOURCE)
    (folder / "scale.yaml").write_text(EXPERIMENT)
    return folder / "scale.yaml"


def started(experiment, name, *words):
    """`lab run` in a process of its own; its output goes to a file."""
    folder = experiment.parent
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "lab", "run", str(experiment), "--no-gpu", "-o", str(folder / name), *words],
            stdout=log,
            stderr=log,
            env=workers.environment() | {"LAB_CACHE_DIR": str(folder / f"{name}-cache")},
        )


def rows(experiment, name):
    """What the run found, without what differs from one run to the next."""
    folder = experiment.parent
    assert (folder / name / "records.csv").is_file(), (folder / f"{name}.log").read_text()
    with (folder / name / "records.csv").open(newline="") as file:
        return [{key: row[key] for key in row if key not in OF_THIS_RUN} for row in csv.DictReader(file)]


@pytest.fixture(scope="module")
def undisturbed(experiment):
    """Rows of a run without a cluster."""
    assert started(experiment, "alone").wait(300) == 0
    found = rows(experiment, "alone")
    assert [row["status"] for row in found] == ["verified"] * 4
    return found


def test_two_clients_of_one_cluster_have_the_records_of_a_run_without_one(experiment, undisturbed, tmp_path):
    with RealCluster(tmp_path) as real:
        asked = ("--cluster", real.address, "--insecure")
        clients = [started(experiment, name, *asked) for name in ("one", "other")]
        assert [client.wait(300) for client in clients] == [0, 0]
    assert rows(experiment, "one") == rows(experiment, "other") == undisturbed


@pytest.mark.thorough
def test_a_host_that_vanishes_and_comes_back_costs_time_alone(experiment, undisturbed, tmp_path):
    with RealCluster(tmp_path) as real, connected(real.address) as cluster:
        first = real.worker
        real.worker = real.started("worker")
        try:
            while len(cluster.members()) < 2:
                cluster.forget_members()
            client = started(experiment, "frozen", "--cluster", real.address, "--insecure")
            while not any(cluster._client.processing().values()):
                assert client.poll() is None
            stopped = processes_of(first.pid)
            for process in stopped:
                os.kill(process, signal.SIGSTOP)  # it answers nothing any more, as behind a cable that was pulled
            assert client.wait(400) == 0
            for process in stopped:
                os.kill(process, signal.SIGCONT)
            until = time.monotonic() + 120
            while len(cluster.members()) < 2:
                assert time.monotonic() < until
                cluster.forget_members()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(first.pid, signal.SIGKILL)
    assert rows(experiment, "frozen") == undisturbed


def processes_of(session):
    """Every process of a session, which a host's worker and what it started are."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(ValueError, ProcessLookupError):
            if os.getsid(int(entry.name)) == session:
                found.append(int(entry.name))
    return found


def test_workers_that_a_batch_system_starts_do_the_work(experiment, undisturbed, tmp_path, monkeypatch):
    """`sbatch` is played by a script that starts the job in the background, as Slurm does on a node."""
    jobqueue = pytest.importorskip("dask_jobqueue")
    (tmp_path / "bin").mkdir()
    commands = {
        "sbatch": f'cp "$1" {tmp_path}/job-$$\nsetsid bash {tmp_path}/job-$$ >>{tmp_path}/job.log 2>&1 &\n'
        f'echo $! >>{tmp_path}/jobs\necho "Submitted batch job $!"',
        "scancel": 'kill -- -"$1"',
    }
    for name, text in commands.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/bash\n{text}\n")
        (tmp_path / "bin" / name).chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    with jobqueue.SLURMCluster(
        cores=2,
        processes=1,
        memory="4GB",
        python=sys.executable,
        scheduler_options={"host": "127.0.0.1", "dashboard": False},
        worker_extra_args=["--resources", "CPU=2", "--host", "127.0.0.1", "--no-dashboard"],
        job_script_prologue=["export DASK_DISTRIBUTED__WORKER__DAEMON=False", "export LAB_CLUSTER_JOBS=2"],
        local_directory=str(tmp_path),
        log_directory=str(tmp_path),
    ) as slurm:
        slurm.scale(jobs=1)
        client = started(experiment, "batch", "--cluster", slurm.scheduler_address, "--insecure")
        code = client.wait(300)
    for job in (tmp_path / "jobs").read_text().split():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(int(job), signal.SIGKILL)
    assert code == 0, (experiment.parent / "batch.log").read_text() + (tmp_path / "job.log").read_text()
    assert rows(experiment, "batch") == undisturbed
