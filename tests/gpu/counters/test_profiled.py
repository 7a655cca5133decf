"""The program that the profiler watches, run on the fake device."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from gpu_jobs import job

from lab.gpu.counters.profiled import policy_for
from lab.gpu.process.job import Job
from lab.gpu.timing.cache import COLD, WARM, Flush

PROGRAM = "import runpy, sys; sys.path[:] = {path!r}; runpy.run_path({file!r}, run_name='__main__')"
FILE = Path(__file__).parents[2] / "support" / "fake_profiled.py"


@pytest.mark.parametrize(("cache", "times", "flush"), [(COLD, 1, Flush.ON), (WARM, 2, Flush.OFF)])
def test_a_warm_sequence_is_launched_twice(cache: str, times: int, flush: Flush) -> None:
    policy = policy_for(cache)
    assert (policy.launches, policy.flush) == (times, flush)
    assert (policy.check, policy.measure, policy.baseline) == (False, False, None)


def profiled(
    folder: Path, *orders: tuple[Job, str]
) -> tuple[list[dict[str, object]], subprocess.CompletedProcess[str]]:
    """Profile the orders in a process; return what the program logs, and the finished process."""
    (folder / "orders").write_bytes(pickle.dumps(orders))
    code = PROGRAM.format(path=sys.path, file=str(FILE))
    command = [sys.executable, "-c", code, str(folder / "orders"), str(folder / "log")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in (folder / "log").read_text().splitlines()], done


def test_every_variant_is_launched_and_logged_in_order(tmp_path: Path) -> None:
    orders = [(replace(job(), variant="v1"), COLD), (replace(job("refused"), variant="v2"), COLD), (job(), WARM)]
    said, _ = profiled(tmp_path, *orders)
    assert [(line["variant"], line["times"]) for line in said] == [("v1", 1), ("v2", 0), ("v1", 2)]
    assert [bool(line["error"]) for line in said] == [False, True, False]


def test_a_device_error_ends_it(tmp_path: Path) -> None:
    said, _ = profiled(tmp_path, (job(), COLD), (job("illegal"), COLD), (job(), COLD))
    assert [line["times"] for line in said] == [1, 0]
    assert str(said[1]["error"]).startswith("CUDA error: an illegal memory access")


def test_what_a_kernel_prints_stays_out_of_the_profilers_table(tmp_path: Path) -> None:
    _, done = profiled(tmp_path, (job("prints"), COLD))
    assert done.stdout == ""
    assert "printed by the kernel" in done.stderr
