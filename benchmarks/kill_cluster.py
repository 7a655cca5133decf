"""Kill parts of a cluster at random moments while `lab run` works on it, go on, and compare with an undisturbed run.

python benchmarks/kill_cluster.py [--kills 50] [--seed 0] [--minutes 600]

Everything is real and started by lab's own commands, on the loopback: Dask's scheduler, its workers with their
nannies, the processes in them, NVRTC, the executor of PTX. Only the GPU is left out, so that records are the same
each time. At a random moment one of the four is killed by SIGKILL: a worker, its nanny, the scheduler or the client.
What an operator would start again is started again: nanny and scheduler at once, the client with what is on the disk.
What hosts have kept of builds is removed before each start, so that most moments have work under way.
A run that ends by itself must equal the undisturbed one: every record, every file, every table; only durations and
dates may differ. A client that loses the scheduler must end with exit code 3 and a sentence, and no output may hold a
traceback.

Exit code 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import distributed  # noqa: F401 - so that each client, a fork of this process, has it already
import kill

from lab.base import workers

EXPERIMENT = """question: Does a run go on whatever is killed?
operator: gemm
problem: {m: [64, 128, 192, 256], n: 128, k: 64}
emulate: {m: 64, n: 64, k: 32}
kernels:
  - {template: gemm/v1_coalesced.cu.j2}
  - {template: gemm/v3_shared.cu.j2}
  - {template: gemm/v4_padded.cu.j2}
archs: [sm_90]
"""
PARTS = ("worker", "nanny", "scheduler", "client")
LOST, NEVER = 3, 999
"""Exit code of a client that lost its scheduler; what stands for one of a client that never ended."""


class Hosts:
    """A scheduler and one worker of two jobs, started again where they are killed."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.address = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
        self._folder = folder
        self.running = {what: self._start(what) for what in ("scheduler", "worker")}

    def _start(self, what: str) -> subprocess.Popen[bytes]:
        more = ["--jobs", "2", "--no-gpus"] if what == "worker" else []
        with (self._folder / f"{what}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "lab", "cluster", what, self.address, "--insecure", *more],
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=workers.environment() | {"LAB_CACHE_DIR": str(self._folder / "cache")},
            )

    def kill(self, component: str) -> bool:
        """Kill a part; start again what does not start by itself."""
        if component == "worker":
            nanny = self.running["worker"].pid
            below = [pid for pid in _children(nanny) if "spawn_main" in _line(pid)]
            for pid in below:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return bool(below)
        name = {"nanny": "worker"}.get(component, component)
        self.running[name].kill()
        self.running[name].wait()
        self.running[name] = self._start(name)
        return True

    def end(self) -> None:
        """Kill everything."""
        for process in self.running.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def tracebacks(self) -> list[str]:
        """Logs of our own commands that hold one."""
        return [what for what in self.running if "internal error" in (self._folder / f"{what}.log").read_text()]


def _children(parent: int) -> list[int]:
    found = []
    for place in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if place.name.isdigit() and int((place / "stat").read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(place.name))
    return found


def _line(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text()
    return ""


class ClusterKiller:
    """Runs one experiment on the cluster and kills parts of it."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        """Run it undisturbed."""
        self._folder, self._rng = folder, rng
        self.hosts = Hosts(folder)
        self.kills, self.finished, self.wrong = Counter[str](), 0, list[str]()
        self.codes: Counter[int] = Counter()
        kill.COMMANDS = {"run": (EXPERIMENT, ("--no-gpu", "--cluster", self.hosts.address, "--insecure"))}
        self._file = folder / "run.yaml"
        self._file.write_text(EXPERIMENT)
        for name in ("first", "whole"):  # the workers have started by the second one
            began = time.monotonic()
            attempt = self._begin(folder / name)
            if (code := kill.wait_until(attempt, began + 600)) != 0:
                raise RuntimeError(f"the run fails as it is, with {code}: {attempt.log.read_text()[-2000:]}")
            self._seconds = time.monotonic() - began
        self._expected = kill.content(folder / "whole")

    def _begin(self, place: Path) -> kill.Attempt:
        """Begin a run, or go on with it; the hosts have kept nothing, so that there is work to be disturbed in."""
        shutil.rmtree(self._folder / "cache", ignore_errors=True)
        return kill.begin("run", self._file, place, again=any(place.glob("*.sqlite")))

    def chain(self, most: int) -> None:
        """Kill up to `most` times, one a run or more, until a run ends by itself; then compare."""
        place = self._folder / "broken"
        shutil.rmtree(place, ignore_errors=True)
        place.with_suffix(".log").unlink(missing_ok=True)
        goal = sum(self.kills.values()) + most
        for _ in range(200):
            attempt = self._begin(place)
            code = self._disturbed(attempt, goal)
            if rest := kill.left_behind(attempt.pid):
                self.wrong.append(f"the client left {rest}")
            self.codes[NEVER if code is None else code] += 1
            if code == 0:
                break
            if code not in {LOST, -signal.SIGKILL}:
                self.wrong.append(f"ended with {code}: {attempt.log.read_text()[-1500:]}")
        said = place.with_suffix(".log").read_text()
        if "Traceback" in said or "internal error" in said:
            self.wrong.append(said[-3000:])
        self.finished += 1
        found = kill.content(place)
        for name in kill.differences(self._expected, found):
            self.wrong.append(f"{name}: {str(self._expected.get(name))[:300]} became {str(found.get(name))[:300]}")

    def _disturbed(self, attempt: kill.Attempt, goal: int) -> int | None:
        """Kill parts until there were `goal` kills or the client ended; its exit code, or None if it never ends."""
        began = time.monotonic()
        while sum(self.kills.values()) < goal:
            code = kill.wait_until(attempt, time.monotonic() + self._rng.uniform(0, self._seconds))
            if code is not None:
                return code
            self._kill(attempt)
            if not Path(f"/proc/{attempt.pid}").exists():
                return -signal.SIGKILL
        return kill.wait_until(attempt, began + 600)

    def _kill(self, attempt: kill.Attempt) -> None:
        component = self._rng.choice(PARTS)
        if component == "client":
            os.kill(attempt.pid, signal.SIGKILL)
            os.waitpid(attempt.pid, 0)
        elif not self.hosts.kill(component):  # it is starting
            return
        self.kills[component] += 1


def main() -> None:
    """Kill and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50, help="how many")
    parser.add_argument("--seed", type=int, default=0, help="of the moments and the parts")
    parser.add_argument("--minutes", type=float, default=600, help="begin no further chain after this time")
    options = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kill-cluster-") as name:
        killer = ClusterKiller(Path(name), random.Random(options.seed))  # noqa: S311 - no secret
        printed = 0
        try:
            while (
                done := sum(killer.kills.values())
            ) < options.kills and time.monotonic() < began + 60 * options.minutes:
                killer.chain(min(4, options.kills - done))
                print(f"{sum(killer.kills.values())} kills, {len(killer.wrong)} wrong", flush=True)
                print(*killer.wrong[printed:], sep="\n", flush=True)
                printed = len(killer.wrong)
            killer.wrong += [f"the {traceback} has an error of its own" for traceback in killer.hosts.tracebacks()]
        finally:
            killer.hosts.end()
    hit = ", ".join(f"{number} x {part}" for part, number in sorted(killer.kills.items()))
    codes = ", ".join(f"{number} x {code}" for code, number in sorted(killer.codes.items()))
    print(f"killed {hit}; {killer.finished} runs went on to the end; exit codes: {codes}")
    print(f"{len(killer.wrong)} wrong; {time.monotonic() - began:.0f} s")
    sys.exit(bool(killer.wrong))


if __name__ == "__main__":
    main()
