"""Kill `lab run` and `lab tune` at random moments, go on, and compare with a run that nobody disturbed.

python benchmarks/kill.py [--kills 100] [--seed 0] [--minutes 600]

Everything is real: worker processes, NVRTC, nvdisasm, the executor of PTX, the report. Only the GPU is left out, so
that records are the same each time. Each attempt is the command in a fork of this process; one of its workers is killed
at a random moment, and at a later one the command itself. Then it starts again with what is on the disk, until it ends
by itself. What it has then must equal the undisturbed run: every record, every file, every table; only durations
and dates may differ. No worker may outlive its command, and no output may hold a traceback.

Exit code 1 if anything was wrong. The last line says how many kills hit a command and how many a worker.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import os
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.cli.main import main as lab

EXPERIMENT = """question: Does a run that is killed go on?
operator: gemm
problem: {m: [128, 256], n: 128, k: 64}
emulate: {m: 32, n: 32, k: 16}
kernels:
  - {template: gemm/v1_coalesced.cu.j2}
  - {template: gemm/v3_shared.cu.j2}
archs: [sm_90]
"""
TUNING = """question: Does a tuning run that is killed go on?
arch: sm_90
groups:
  - name: tensile
    template: gemm/tensile.cu.j2
    ForkParameters: {ThreadTile: [[4, 4], [2, 4], [4, 2]]}
    BenchmarkFinalParameters: [{exact: [64, 64, 64]}, {range: [[16, 16, 64], 16, 16]}]
"""
COMMANDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "run": (EXPERIMENT, ("--no-gpu", "--jobs", "2")),
    "tune": (TUNING, ("--no-gpu", "--jobs", "2")),
}

PASSING = frozenset({"started", "seconds", "cached", "command", "compile_seconds", "build.log"})
"""Fields of durations, dates and the cache; the size of the log, which holds the compile time."""

GONE_S = 30.0
"""Workers end within this time of their command."""


@dataclass
class Tally:
    """Counts of kills, finished chains and errors.

    Attributes:
        kills: How many hit a command and how many a worker.
        finished: Chains of attempts that ended by themselves, by command.
        wrong: What should not have been.
    """

    kills: Counter[str] = field(default_factory=Counter)
    finished: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Attempt:
    """A command under way.

    Attributes:
        pid: Its process.
        log: What it prints.
    """

    pid: int
    log: Path

    def ended(self) -> int | None:
        """Exit code, negative for a signal; None while it runs."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if pid else None


def begin(command: str, file: Path, folder: Path, *, again: bool) -> Attempt:
    """Start a command in a fork of this process, which has imported it already."""
    log = folder.with_suffix(".log")
    words = [
        "lab",
        command,
        str(file),
        "--output",
        str(folder),
        *COMMANDS[command][1],
        *(["--resume"] if again else []),
    ]
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        code: Any = 70
        try:
            os.setsid()
            output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            for stream in (1, 2):
                os.dup2(output, stream)
            os.environ["LAB_CACHE_DIR"] = str(folder.parent / "cache")
            sys.argv = words
            lab()
            code = 0
        except SystemExit as end:
            code = end.code or 0
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
            os._exit(code if isinstance(code, int) else 70)
    return Attempt(pid, log)


def session(leader: int) -> list[tuple[int, str]]:
    """Processes whose session a command leads, itself included, with their command lines."""
    processes = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                fields = (place / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == leader and fields[0] != "Z":
                    processes.append((int(place.name), (place / "cmdline").read_text().replace("\0", " ").strip()))
    return processes


def kill_a_worker(attempt: Attempt, rng: random.Random) -> bool:
    """Kill one of its processes, whichever; not the one that only counts semaphores."""
    workers = [pid for pid, line in session(attempt.pid) if pid != attempt.pid and "resource_tracker" not in line]
    if not workers:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(rng.choice(sorted(workers)), signal.SIGKILL)
        return True
    return False


def wait_until(attempt: Attempt, moment: float) -> int | None:
    """Exit code if the command ends before that moment of the monotonic clock."""
    while time.monotonic() < moment:
        code = attempt.ended()
        if code is not None:
            return code
        time.sleep(0.02)
    return None


def left_behind(leader: int) -> list[str]:
    """Return the processes a command left behind after a grace period, and kill them."""
    until = time.monotonic() + GONE_S
    while (rest := session(leader)) and time.monotonic() < until:
        time.sleep(0.1)
    for pid, _ in rest:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return [line for _, line in rest]


def content(folder: Path) -> dict[str, Any]:
    """Tables and files of a run directory without what may differ."""
    tables: dict[str, Any] = {}
    for database in folder.glob("*.sqlite"):
        with contextlib.closing(sqlite3.connect(database)) as opened:
            for (table,) in opened.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                rows = opened.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608 - our own names
                tables[table] = sorted([[_lasting(value) for value in row] for row in rows], key=repr)
    for file in sorted(folder.rglob("*")):
        name = str(file.relative_to(folder))
        if file.suffix == ".csv":
            with file.open(newline="") as lines:
                tables[name] = [_without(row) for row in csv.DictReader(lines)]
        elif file.name == "build.log":
            tables[name] = [line for line in file.read_text().splitlines() if "time = " not in line]
        elif file.is_file() and file.parent.parent.name == "variants":
            tables[name] = file.read_bytes() if file.suffix != ".json" else _lasting(file.read_text())
        elif file.is_file() and file.suffix in {".html", ".png"}:
            tables[name] = file.stat().st_size > 0
    return tables


def _lasting(value: object) -> object:
    """JSON without durations and dates; anything else as it is."""
    if isinstance(value, str) and value[:1] in {"{", "["}:
        return _without(json.loads(value))
    return value


def _without(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without(one) for key, one in sorted(value.items()) if key not in PASSING}
    return [_without(one) for one in value] if isinstance(value, list) else value


def differences(expected: dict[str, Any], actual: dict[str, Any]) -> list[str]:
    """Tables and files that are not the same."""
    return [name for name in sorted(expected.keys() | actual.keys()) if expected.get(name) != actual.get(name)]


class Killer:
    """Runs commands in a folder and kills them."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        """Run each command once, undisturbed.

        Raises:
            RuntimeError: one fails.
        """
        self.tally, self._rng, self._folder = Tally(), rng, folder
        self._whole: dict[str, tuple[dict[str, Any], float]] = {}
        (folder / "whole").mkdir()
        for command, (text, _) in COMMANDS.items():
            file = folder / f"{command}.yaml"
            file.write_text(text)
            began = time.monotonic()
            attempt = begin(command, file, folder / "whole" / command, again=False)
            if wait_until(attempt, began + 600) != 0:
                raise RuntimeError(f"lab {command} fails as it is: {attempt.log.read_text()[-2000:]}")
            self._whole[command] = content(folder / "whole" / command), time.monotonic() - began

    def chain(self, command: str, most: int) -> None:
        """Kill a command up to `most` times, then let it end, and compare."""
        expected, seconds = self._whole[command]
        place = self._folder / "broken"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        before = self._kills
        for number in range(1000):
            folder = place / command
            attempt = begin(command, self._folder / f"{command}.yaml", folder, again=number > 0 and _begun(folder))
            code = self._disturbed(attempt, seconds) if self._kills - before < most else None
            if code is None and self._kills - before >= most and _alive(attempt):
                code = wait_until(attempt, time.monotonic() + 600)
            if rest := left_behind(attempt.pid):
                self.tally.wrong.append(f"lab {command} left {rest}")
            if code is None or code < 0:
                continue
            said = attempt.log.read_text()
            if "Traceback" in said:
                self.tally.wrong.append(f"lab {command} ended with {code}: {said[-1500:]}")
            if code == 0:
                break
        else:
            self.tally.wrong.append(f"lab {command} never ended")
            return
        self.tally.finished[command] += 1
        actual = content(place / command)
        for name in differences(expected, actual):
            first, second = str(expected.get(name)), str(actual.get(name))
            at = next((i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), 0)
            shown = f"{first[max(0, at - 80) : at + 80]!r} became {second[max(0, at - 80) : at + 80]!r}"
            self.tally.wrong.append(f"lab {command}: {name} is not as undisturbed: {shown}")

    @property
    def _kills(self) -> int:
        return sum(self.tally.kills.values())

    def _disturbed(self, attempt: Attempt, seconds: float) -> int | None:
        """Kill a worker, then the command; its exit code if it ends before that."""
        began = time.monotonic()
        first, second = sorted(self._rng.uniform(0, 1.1 * seconds) for _ in range(2))
        code = wait_until(attempt, began + first)
        if code is not None:
            return code
        self.tally.kills["worker"] += kill_a_worker(attempt, self._rng)
        code = wait_until(attempt, began + second)
        if code is not None:
            return code
        os.kill(attempt.pid, signal.SIGKILL)
        os.waitpid(attempt.pid, 0)
        self.tally.kills["command"] += 1
        return None


def _alive(attempt: Attempt) -> bool:
    return Path(f"/proc/{attempt.pid}").exists()


def _begun(folder: Path) -> bool:
    return any(folder.glob("*.sqlite"))


def kill(number: int, seed: int, minutes: float = 600, *, chain: int = 6) -> Tally:
    """Kill that often, `chain` times before each comparison at most."""
    until = time.monotonic() + 60 * minutes
    with tempfile.TemporaryDirectory(prefix="kill-") as name:
        killer = Killer(Path(name), random.Random(seed))  # noqa: S311 - no secret
        turn = printed = 0
        while (done := sum(killer.tally.kills.values())) < number and time.monotonic() < until:
            killer.chain(list(COMMANDS)[turn % len(COMMANDS)], min(chain, number - done))
            turn += 1
            print(f"{sum(killer.tally.kills.values())} kills, {len(killer.tally.wrong)} wrong", flush=True)
            print(*killer.tally.wrong[printed:], sep="\n", flush=True)
            printed = len(killer.tally.wrong)
    return killer.tally


def main() -> None:
    """Kill and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100, help="how many")
    parser.add_argument("--seed", type=int, default=0, help="of the moments and the workers")
    parser.add_argument("--minutes", type=float, default=600, help="begin no further chain after this time")
    asked = parser.parse_args()
    began = time.monotonic()
    tally = kill(asked.kills, asked.seed, asked.minutes)
    chains = ", ".join(f"{number} of lab {name}" for name, number in tally.finished.items())
    hit = f"{tally.kills['command']} kills of commands and {tally.kills['worker']} of workers"
    print(f"{hit}; went on to the end: {chains}; {len(tally.wrong)} wrong; {time.monotonic() - began:.0f} s")
    sys.exit(bool(tally.wrong))


if __name__ == "__main__":
    main()
