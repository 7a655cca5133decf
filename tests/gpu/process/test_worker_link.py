"""The parent's end of a worker, with a process, a pipe and a clock that are played."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from lab.gpu.process.worker_link import WorkerEndedError, WorkerProcess, WorkerSilentError

SENTINEL = 99


class Process:
    pid, sentinel = 4711, SENTINEL

    def __init__(self, exitcode=None):
        self.exitcode, self.calls = exitcode, []

    def is_alive(self):
        return self.exitcode is None

    def join(self, timeout):
        self.calls.append(f"join {timeout:g}")

    def kill(self):
        self.calls.append("kill")

    def close(self):
        self.calls.append("close")


class Pipe:
    """Holds messages that have arrived; a class among them is raised."""

    def __init__(self, *messages, closed=False):
        self.messages, self.sent, self.closed = list(messages), [], closed

    def poll(self):
        return bool(self.messages)

    def recv(self):
        message = self.messages.pop(0)
        if isinstance(message, type):
            raise message
        return message

    def send(self, message):
        if self.closed:
            raise BrokenPipeError
        self.sent.append(message)

    def close(self):
        self.closed = True


class Wait:
    """Plays `multiprocessing.connection.wait`: each step takes time, delivers messages, or ends the process."""

    def __init__(self, pipe, *steps):
        self.now, self.pipe, self.steps, self.left = 0.0, pipe, list(steps), []

    def __call__(self, handles, left):
        self.left.append(left)
        seconds, happens = self.steps.pop(0)
        self.now += min(seconds, left)
        if happens == "ended":
            return [SENTINEL]
        if happens == "ended with a last word":
            self.pipe.messages.append("last word")
            return [SENTINEL]
        if happens:
            self.pipe.messages.append(happens)
            return [self.pipe]
        return []


def link(process, pipe, *steps):
    wait = Wait(pipe, *steps)
    return WorkerProcess(process, pipe, lambda: wait.now, wait), wait


def test_a_message_that_is_there_is_received_at_once():
    made, _ = link(Process(), Pipe("ready"))
    assert made.receive(0.0, "starting") == "ready"


def test_it_waits_for_a_message_until_the_limit():
    made, wait = link(Process(), Pipe(), (2.0, ""), (1.0, "ready"))
    assert made.receive(5.0, "starting") == "ready"
    assert wait.left == [5.0, 3.0]


def test_silence_beyond_the_limit_is_an_error_with_the_activity():
    made, wait = link(Process(), Pipe(), (60.0, ""))
    with pytest.raises(WorkerSilentError, match=r"timed out after 0.3 s \(launch\)"):
        made.receive(0.3, "launch")
    assert wait.now == 0.3


def test_a_last_word_is_heard_though_the_worker_has_ended():
    made, _ = link(Process(0), Pipe(), (1.0, "ended with a last word"))
    assert made.receive(5.0, "launch") == "last word"


@pytest.mark.parametrize(
    ("code", "words", "killed"),
    [
        (7, "worker ended with exit code 7 (launch)", False),
        (0, "worker ended with exit code 0 (launch)", False),
        (-signal.SIGSEGV, "worker ended by signal 11 (SIGSEGV) (launch)", False),
        (-signal.SIGKILL, "worker ended by signal 9 (SIGKILL) (launch)", True),
        (-250, "worker ended by signal 250 (launch)", False),
        (None, "worker closed its pipe (launch)", False),
    ],
)
@pytest.mark.parametrize("way", ["sentinel", "end of file"])
def test_how_the_worker_ended_is_said(code, words, killed, way):
    pipe = Pipe(*([EOFError] if way == "end of file" else []))
    made, _ = link(Process(code), pipe, (1.0, "ended"))
    with pytest.raises(WorkerEndedError) as caught:
        made.receive(5.0, "launch")
    assert (str(caught.value), caught.value.killed) == (words, killed)


def test_a_message_to_a_worker_that_is_gone_says_how_it_ended():
    made, _ = link(Process(7), Pipe(closed=True))
    with pytest.raises(WorkerEndedError, match=r"worker ended with exit code 7$"):
        made.send("job")


def test_stopping_asks_first_and_kills_then():
    process, pipe = Process(), Pipe()
    made, _ = link(process, pipe)
    assert (made.process_id, made.is_alive()) == (4711, True)
    made.stop()
    assert (pipe.sent, pipe.closed) == ([None], True)
    assert process.calls == ["join 5", "kill", "join 30", "close"]


def test_a_worker_that_has_ended_is_not_killed():
    process = Process(0)
    link(process, Pipe(closed=True))[0].stop()
    assert process.calls == ["join 5", "join 30", "close"]


def test_a_process_that_the_driver_holds_is_left_behind():
    class Held(Process):
        def close(self):
            raise ValueError("Cannot close a process while it is still running")

    link(Held(), Pipe())[0].kill()


def test_a_worker_ignores_interrupts_and_the_parent_keeps_its_handler():
    """A terminal's Ctrl-C reaches the worker too; the parent decides what becomes of it."""
    code = """
import signal
from gpu_jobs import QUIET, job
from fake_device import FakeDevice
from lab.gpu.process.session import GpuSession

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with GpuSession(FakeDevice) as session:
        session.start()
        mask = open(f"/proc/{session.process_id}/status").read().partition("SigIgn:")[2].split()[0]
        print(bool(int(mask, 16) >> (signal.SIGINT - 1) & 1), signal.getsignal(signal.SIGINT).__name__)
"""
    command = [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}\n{code}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "default_int_handler"]
