"""Ctrl-C in a process; each test presses it in one of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PRESS = """
import os, signal, sys
from pathlib import Path
from lab.base import interrupts
from lab.base.files import scratch

def press():
    signal.raise_signal(signal.SIGINT)

def say(word):
    os.write(1, f"{word} ".encode())

signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it
interrupts.end_at_once()
"""

STOPPING = "interrupted: stopping; Ctrl-C again leaves at once"


def pressed(code):
    done = subprocess.run([sys.executable, "-c", PRESS + code], capture_output=True, text=True, check=False, timeout=60)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout.split(), done.stderr.splitlines()


@pytest.mark.parametrize(
    "code",
    [
        "press()",
        "try: press()\nexcept BaseException: pass",
        "class Swallowing:\n def __del__(self): press()\nSwallowing()",
        "import atexit\natexit.register(press)\nsys.exit()",
    ],
    ids=["plain", "swallowed", "destructor", "exit"],
)
def test_it_ends_the_process_with_one_line_wherever_that_is(code):
    assert pressed(f"{code}\nsay('later')") == (130, [], ["interrupted"])


def test_folders_of_tools_are_removed():
    code, (folder,), lines = pressed(
        "with scratch('lab-test-') as folder:\n say(folder)\n (folder / 'a').touch()\n press()"
    )
    assert (code, lines) == (130, ["interrupted"])
    assert not Path(folder).exists()


def test_work_stops_where_it_waits_and_not_elsewhere():
    code = """
try:
    with interrupts.stoppable():
        press()
        say('goes-on')
        interrupts.wait(say, 'not-called')
except KeyboardInterrupt:
    say('stopped')
"""
    assert pressed(code) == (0, ["goes-on", "stopped"], [STOPPING])


def test_waiting_is_interrupted():
    code = """
import threading
def wait():
    press()
    threading.Event().wait()
try:
    with interrupts.stoppable():
        interrupts.wait(wait)
except KeyboardInterrupt:
    say('stopped')
"""
    assert pressed(code) == (0, ["stopped"], [STOPPING])


def test_work_that_never_waits_is_stopped_at_its_end_and_checks_on_the_way():
    code = """
for check in (interrupts.check, lambda: None):
    try:
        with interrupts.stoppable():
            press()
            check()
            say('ended')
    except KeyboardInterrupt:
        say('stopped')
"""
    assert pressed(code) == (0, ["stopped", "ended", "stopped"], [STOPPING] * 2)


def test_the_second_time_it_ends_the_process_also_while_a_report_is_drawn():
    code = "with interrupts.stoppable():\n press()\n press()"
    assert pressed(code) == (130, [], [STOPPING, "interrupted"])
    code = "try:\n with interrupts.stoppable():\n  press()\nexcept KeyboardInterrupt:\n press()"
    assert pressed(code) == (130, [], [STOPPING, "interrupted"])


def test_work_without_results_is_not_worth_a_report():
    assert pressed("with interrupts.stoppable(lambda: False):\n press()") == (130, [], ["interrupted"])


def test_a_process_that_is_starting_is_started_first_and_hears_nothing():
    code = """
import subprocess
with interrupts.starting():
    press()
    blocked = subprocess.run(
        [sys.executable, "-c", "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()))"],
        capture_output=True, text=True, env=dict(os.environ)).stdout
    say(blocked.strip())
import threading
threading.Event().wait()
"""
    assert pressed(code) == (130, ["True"], ["interrupted"])


def test_an_ignored_signal_and_a_handler_of_the_programs_own_stay():
    code = """
for own in (signal.SIG_IGN, lambda *_: say('own')):
    signal.signal(signal.SIGINT, own)
    interrupts.end_at_once()
    press()
    say(interrupts.is_handled())
"""
    assert pressed(code) == (0, ["False", "own", "False"], [])
