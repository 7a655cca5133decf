"""One of the kills of `benchmarks/kill.py`, which does a hundred."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.fixture(scope="module")
def script(benchmark_script):
    return benchmark_script("kill")


def test_a_killed_command_goes_on_and_leaves_what_an_undisturbed_one_does(root):
    # a process of its own: the script forks, which a process with threads must not do
    command = [sys.executable, str(root / "benchmarks" / "kill.py"), "--kills", "1", "--seed", "4"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "; 0 wrong; " in done.stdout


def test_only_durations_and_dates_may_differ(script):
    one = {"status": "verified", "seconds": 1.0, "build": [{"cached": True, "registers": 32}]}
    other = {"status": "verified", "seconds": 2.0, "build": [{"cached": False, "registers": 32}]}
    assert script._without(one) == script._without(other)
    assert script._without(one) != script._without({**one, "status": "timed out"})
    assert script.differences({"a": 1, "b": 2}, {"a": 1, "b": 3, "c": 4}) == ["b", "c"]
