"""Scheduling overhead of a cluster per variant: a real scheduler, many sleeping workers, and lab's own lanes.

python benchmarks/scale_simulated.py [--variants 100000] [--workers 200] [--cards 20]

Workers are Dask's own, all in one process with one event loop beside the scheduler's process; a piece of work sleeps
there for as long as a build or a timing takes. The client is lab's: `Cluster`, lanes, letters with a source of
3,000 characters each. Every variant is built, then timed on one of the cards. Printed are seconds and processor time of
client, scheduler and all workers, with the memory of the first two, after every tenth of the variants; then what the
workers' sleep alone would take, and the overhead a variant.

What a worker does now and then for itself, such as reading its host's load, is left out: here it would be 200 times on
one machine.

The durations are the median `compile_seconds` of `reports/h200/gemm_unroll`, and the 0.090 s a
variant that 120 variants took on the H200's host.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import itertools
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from published_rows import rows  # the module beside this one

from lab.base import workers
from lab.cluster import letters
from lab.cluster.client import CPU, GPU, SETTINGS, Cluster, connected
from lab.cluster.host_version import Identity
from lab.cluster.letters import Content, Letter
from lab.cluster.remote import WorkerAnswer
from lab.runs.task_schedule import SerialLane, run_lanes

TIMING_S = 0.090
_MOST_READY = 200
"""Variants that may wait for a card before building pauses, as in a sweep."""

REPORT = Path(__file__).parents[1] / "reports" / "h200" / "gemm_unroll"


async def sleep(client: Identity, letter: Letter, parts: Mapping[str, Content]) -> WorkerAnswer:
    """Stand in for `lab.cluster.remote.work`: sleep as long as the letter says."""
    del client
    payload: Any = letters.read(letter, parts)
    await asyncio.sleep(payload[0])
    return WorkerAnswer(value=pickle.dumps(payload[0]), host="here")


async def serve(address: str, number: int, cards: int) -> None:
    """Be all the workers."""
    import dask  # noqa: PLC0415 - of the extra, and not needed by the client's process here
    from distributed import Worker  # noqa: PLC0415

    alone = {"distributed.admin.system-monitor.interval": "1h", "distributed.admin.tick.interval": "1h"}
    with dask.config.set(SETTINGS | alone):
        cluster_workers = []
        for place in range(number):
            offers: dict[str, float] = {GPU: 1, f"card-{place}": 1} if place < cards else {CPU: 1}
            cluster_workers.append(
                Worker(address, nthreads=1, name=str(place), resources=offers, memory_limit=0, dashboard=False)
            )
        for some in range(0, number, 20):
            await asyncio.gather(*(one.start() for one in cluster_workers[some : some + 20]))
        await asyncio.gather(*(worker.finished() for worker in cluster_workers))


def megabytes(pid: int) -> float:
    """Resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def processor_seconds(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def build_seconds() -> float:
    """Median compile time of the measured report."""
    return float(rows(REPORT)["compile_seconds"].median())


def work(cluster: Cluster, variants: int, cards: int, build_s: float, others: Mapping[str, int]) -> float:
    """Take variants through both lanes; return the seconds. `others` are the processes of scheduler and workers."""
    sleep_there = importlib.import_module(Path(__file__).stem).sleep  # by its name; one of `__main__` travels as code
    source, done, processes = "x" * 3000, itertools.count(1), {"client": os.getpid(), **others}
    spent = {name: processor_seconds(pid) for name, pid in processes.items()}
    cores, began, step = len(cluster.members()) - cards, time.monotonic(), max(1, variants // 10)

    def build(number: int, _: str) -> Future[Any]:
        return cluster.submit(sleep_there, (build_s, f"{number}{source}"))

    def built(number: int, future: Future[Any]) -> None:
        future.result()
        timings.put(number, urgency=0.0, position=number, group=0)  # of one problem
        feed()

    def measure(number: int, place: str) -> Future[Any]:
        return cluster.submit(sleep_there, (TIMING_S, number), resource=place)

    def measured(_: int, future: Future[Any]) -> None:
        future.result()
        feed()
        count = next(done)
        if count % step == 0:
            used = {name: processor_seconds(pid) - spent[name] for name, pid in processes.items()}
            print(
                f"{count:7} variants, {time.monotonic() - began:7.1f} s; "
                f"{', '.join(f'{name} {seconds:.1f} s' for name, seconds in used.items())} of processor time; "
                f"client {megabytes(os.getpid()):.0f} MB, scheduler {megabytes(others['scheduler']):.0f} MB",
                flush=True,
            )

    timings = SerialLane(measure, measured, places=lambda: tuple(f"card-{n}" for n in range(cards)), ordered=False)
    builds = SerialLane(build, built, places=lambda: ("cores",), ordered=False, ahead=2 * cores)
    left = iter(range(variants))

    def feed() -> None:
        """Let builds begin as `lab.runs.sweep` does: while few of them, and few timings, wait."""
        while builds.waiting < cores and timings.waiting < _MOST_READY and (number := next(left, None)) is not None:
            builds.put(number, urgency=0.0, position=number, group=0)

    feed()
    run_lanes((builds, timings))
    return time.monotonic() - began


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variants", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=200, help="those of the cards among them")
    parser.add_argument("--cards", type=int, default=20)
    parser.add_argument("--port", type=int, default=28786)
    parser.add_argument("--serve", action="store_true", help="be the workers; this program starts itself so")
    options = parser.parse_args()
    address, build_s = f"tcp://127.0.0.1:{options.port}", build_seconds()
    if options.serve:
        asyncio.run(serve(address, options.workers, options.cards))
        return
    env = workers.environment() | {
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).resolve().parent), *filter(None, sys.path)])
    }
    commands = (
        ["-m", "lab", "cluster", "scheduler", address, "--insecure"],
        [__file__, "--serve", *(f"--{name}={getattr(options, name)}" for name in ("workers", "cards", "port"))],
    )
    started = [
        subprocess.Popen([sys.executable, *words], env=env, stderr=subprocess.DEVNULL, start_new_session=True)
        for words in commands
    ]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        with connected(address, wait_s=120.0) as cluster:
            while len(cluster.members()) < options.workers:
                cluster.forget_members()
                time.sleep(0.5)
            pids = dict(zip(("scheduler", "workers"), (one.pid for one in started), strict=True))
            seconds = work(cluster, options.variants, options.cards, build_s, pids)
    finally:
        for process in started:
            os.killpg(process.pid, signal.SIGKILL)
    alone = max(build_s / (options.workers - options.cards), TIMING_S / options.cards) * options.variants
    print(f"{options.variants} variants, {options.workers} workers of which {options.cards} cards: {seconds:.1f} s")
    print(f"builds of {build_s:.3f} s and timings of {TIMING_S:.3f} s alone would take {alone:.1f} s")
    print(f"overhead {1000 * (seconds - alone) / options.variants:.2f} ms a variant")


if __name__ == "__main__":
    main()
