"""Some of the moments of `benchmarks/interrupt.py`, which presses Ctrl-C at forty."""

from __future__ import annotations

import signal

import pytest


@pytest.fixture(scope="module")
def script(benchmark_script):
    return benchmark_script("interrupt")


@pytest.mark.parametrize(("moment_s", "terminal"), [(0.1, False), (0.3, True), (1.0, False), (2.0, True)])
def test_ctrl_c_ends_a_run_with_130_one_line_and_no_traceback(script, moment_s, terminal):
    _, ending = script.interrupt_lab(moment_s, terminal=terminal)
    assert ending.faults == (), ending.text


def test_an_ending_is_judged(script):
    trace = "Traceback (most recent call last):\nKeyboardInterrupt\n"
    assert script.Ending(130, "^C\ninterrupted\n", 0.1, ()).faults == ()
    assert script.Ending(None, f"{trace}", 60.0, ("python",)).faults == (
        "exit code None",
        "0 lines about the interruption",
        "Traceback",
        "KeyboardInterrupt",
        "left behind: python",
    )
    assert script.Ending(-signal.SIGINT, trace, 0.0, ()).early
    assert not script.Ending(-signal.SIGINT, f'{trace} File "/x/lab/__main__.py"', 0.0, ()).early
