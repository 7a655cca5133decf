"""Whole commands on a cluster of real processes: two clients at once, a host that vanishes, a batch system."""

from __future__ import annotations

import contextlib
import csv
import os
import select
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from apart import Host, skip_unless_allowed, with_mounts
from real_cluster import RealCluster

from lab.base import workers
from lab.cluster.client import connected
from lab.toolchain.nvrtc.compiler import find_nvrtcs

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


def started(experiment, name, *words, within=()):
    """`lab run` in a process of its own, on the host of `within`; its output goes to a file."""
    folder = experiment.parent
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [
                *within,
                sys.executable,
                "-m",
                "lab",
                "run",
                str(experiment),
                "--no-gpu",
                "-o",
                str(folder / name),
                *words,
            ],
            stdout=log,
            stderr=log,
            env=workers.environment() | {"LAB_CACHE_DIR": str(folder / f"{name}-cache")},
        )


def rows(experiment, name):
    """Return the run's rows without the columns that differ between runs."""
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
        options = ("--cluster", real.address, "--insecure")
        clients = [started(experiment, name, *options) for name in ("one", "other")]
        assert [client.wait(300) for client in clients] == [0, 0]
    assert rows(experiment, "one") == rows(experiment, "other") == undisturbed


@contextlib.contextmanager
def frozen(host):
    """Stop every process of a host, and let them go on afterwards."""
    stopped = processes_of(host.pid)
    for process in stopped:
        os.kill(process, signal.SIGSTOP)
    yield
    for process in stopped:
        os.kill(process, signal.SIGCONT)


@contextlib.contextmanager
def cut_off(cable):
    """Cut a cable, and mend it afterwards."""
    cable.cut()
    yield
    cable.mend()


def until_there_are(cluster, number):
    """Wait for workers to come or to go."""
    until = time.monotonic() + 180
    while len(cluster.members()) != number:
        assert time.monotonic() < until
        cluster.forget_members()


def until_it_works(cluster, client):
    """Wait until a client's work is under way."""
    while not any(cluster._client.processing().values()):
        assert client.poll() is None


@pytest.mark.thorough
def test_a_host_that_is_frozen_and_goes_on_costs_time_alone(experiment, undisturbed, tmp_path):
    with RealCluster(tmp_path, workers=2) as real, connected(real.address) as cluster:
        until_there_are(cluster, 2)
        client = started(experiment, "frozen", "--cluster", real.address, "--insecure")
        until_it_works(cluster, client)
        with frozen(real.workers[0]):
            assert client.wait(400) == 0
        until_there_are(cluster, 2)
    assert rows(experiment, "frozen") == undisturbed


@pytest.mark.thorough
def test_a_host_whose_cable_is_pulled_out_and_in_costs_time_alone(experiment, undisturbed, tmp_path):
    skip_unless_allowed()
    with Host() as far, RealCluster(tmp_path, host=far.here) as real, connected(real.address) as cluster:
        real.started("worker", host=far.there, within=far.within)
        until_there_are(cluster, 2)
        client = started(experiment, "pulled", "--cluster", real.address, "--insecure")
        until_it_works(cluster, client)
        with cut_off(far):
            assert client.wait(400) == 0
        until_there_are(cluster, 2)
    assert rows(experiment, "pulled") == undisturbed


@pytest.mark.thorough
@pytest.mark.parametrize("long", [False, True])
def test_the_only_host_comes_back_to_its_run(experiment, undisturbed, tmp_path, long):
    skip_unless_allowed()
    name = f"back-{long}"
    with Host() as far, RealCluster(tmp_path, host=far.here, workers=0) as real:
        real.started("worker", host=far.there, within=far.within)
        with connected(real.address) as cluster:
            client = started(experiment, name, "--cluster", real.address, "--insecure")
            until_it_works(cluster, client)
            with cut_off(far):
                if long:
                    until_there_are(cluster, 0)
                else:
                    select.select([], [], [], 5.0)
            assert client.wait(400) == 0
    assert rows(experiment, name) == undisturbed


@pytest.mark.thorough
def test_a_client_whose_cable_is_pulled_ends_with_a_sentence_and_goes_on(experiment, undisturbed, tmp_path):
    skip_unless_allowed()
    with Host() as far, RealCluster(tmp_path, host=far.here) as real, connected(real.address) as cluster:
        options = ("--cluster", real.address, "--insecure")
        client = started(experiment, "away", *options, within=far.within)
        until_it_works(cluster, client)
        with cut_off(far):
            assert client.wait(120) == 3
        said = (experiment.parent / "away.log").read_text()
        assert "was lost" in said
        assert "Traceback" not in said
        assert started(experiment, "away", *options, "--resume", within=far.within).wait(300) == 0
    assert rows(experiment, "away") == undisturbed


@pytest.mark.thorough
@pytest.mark.parametrize("alone", [False, True])
def test_a_host_whose_disk_is_full_loses_no_record(experiment, undisturbed, tmp_path, alone):
    skip_unless_allowed()
    disk, name = tmp_path / "disk", f"full-{alone}"
    disk.mkdir()
    with RealCluster(tmp_path, workers=0 if alone else 1) as real:
        small = real.started(
            "worker",
            within=with_mounts(f"-t tmpfs -o size=256k none {disk}"),
            LAB_CLUSTER_HOST="small",
            LAB_CACHE_DIR=str(disk / "cache"),
            TMPDIR=str(disk),
        )
        with connected(real.address) as cluster:
            until_there_are(cluster, 1 if alone else 2)
        seen = Path(f"/proc/{small.pid}/root{disk}")  # only its own processes see what is mounted there
        fill(seen)
        assert started(experiment, name, "--cluster", real.address, "--insecure").wait(300) == 0
        assert os.statvfs(seen).f_bavail == 0
    assert rows(experiment, name) == undisturbed


def fill(folder):
    """Write until there is no more room."""
    with (folder / "filling").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))


@pytest.mark.thorough
def test_a_host_with_its_compilers_elsewhere_takes_part(experiment, undisturbed, tmp_path):
    skip_unless_allowed()
    (compiler, *_) = find_nvrtcs()
    wheels, elsewhere = compiler.library.parents[2], tmp_path / "compilers" / "theirs" / "nvidia"
    elsewhere.mkdir(parents=True)
    with RealCluster(tmp_path, workers=0) as real:
        real.started(
            "worker",
            within=with_mounts(f"--bind {wheels} {elsewhere}", f"-t tmpfs none {wheels}"),
            LAB_COMPILERS=str(tmp_path / "compilers"),
            PATH=f"{elsewhere / compiler.library.parents[1].name / 'bin'}:{os.environ['PATH']}",
        )
        assert started(experiment, "elsewhere", "--cluster", real.address, "--insecure").wait(300) == 0
    assert rows(experiment, "elsewhere") == undisturbed


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
