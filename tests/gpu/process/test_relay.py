"""All output of a GPU worker reaches standard error."""

from __future__ import annotations

import subprocess
import sys

PRINTING = """
import ctypes, os
from lab.gpu.process.relay import StdoutRelay
relay = StdoutRelay()
c = ctypes.CDLL(None)
c.printf(b"a \\x1b]0;title\\x07 b\\n")  # as the driver does
{then}
"""


def printed(then):
    command = [sys.executable, "-c", PRINTING.format(then=then)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_a_kernels_printf_is_no_output_of_the_command_and_no_command_to_the_terminal():
    done = printed('c.printf(b"the rest"); relay.close(); print("later", flush=True); os._exit(0)')
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "a \\u001b]0;title\\u0007 b\nthe restlater\n"


def test_lines_are_written_as_they_come():
    waiting = "import threading; threading.Event().wait(60)"
    with subprocess.Popen([sys.executable, "-c", PRINTING.format(then=waiting)], stderr=subprocess.PIPE) as process:
        assert process.stderr.readline() == b"a \\u001b]0;title\\u0007 b\n"
        process.kill()
