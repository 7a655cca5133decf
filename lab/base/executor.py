"""Where work runs: the protocol that a scheduler needs, and this machine's worker processes behind it.

An executor on a cluster (Dask, say) implements the same three members and can take the place of `ProcessExecutor`.

The pool is our own: where one worker crashes or is killed, the standard library's and loky's fail all work. Pebble's
stops one alone, but by a clock that can be set, and without the commands that a worker runs.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import pickle
import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.util import Finalize
from types import TracebackType
from typing import Any, Protocol, Self

from lab.base import workers
from lab.base.errors import LabError


class WorkerLostError(LabError):
    """A worker process ended before its work did."""

    exit_code = 3

    def __init__(self, message: str, *, killed: bool) -> None:
        """Describe the loss.

        Args:
            message: How the process ended.
            killed: SIGKILL ended it, which comes from outside (a user, the kernel short of memory): the work itself
                may well succeed another time.
        """
        self.killed = killed
        super().__init__(message)

    def __reduce__(self) -> tuple[object, ...]:
        return partial(WorkerLostError, killed=self.killed), (str(self),)


class Executor(AbstractContextManager["Executor"], Protocol):
    """Runs functions on workers. Use as a context manager: leaving it stops the workers, an error stops them at once.

    Attributes:
        workers: How many functions run at a time.
    """

    @property
    def workers(self) -> int:
        """How many functions run at a time."""

    def submit(self, function: Callable[..., Any], *args: Any, timeout_s: float) -> Future[Any]:  # noqa: ANN401
        """Run a function of a module on a worker.

        Args:
            function: What to run; it and its arguments can be pickled.
            args: Its arguments.
            timeout_s: Seconds after which it is stopped.

        Returns:
            Its result. `Future.result` raises what the function raised, `TimeoutError` after `timeout_s` seconds,
            `MemoryError` where it needed more than its share, and `WorkerLostError` where its worker ended.
        """


_BEGUN = b""
"""What a worker sends when it has taken a piece of work, which its answer follows."""

_STARTS, _PAUSE_S = 5, 0.1
"""How often a worker is started before its work counts as lost, and the seconds between two attempts."""

_PATIENCE_S = 2.0
"""How long a worker that should be ending may take before it is killed."""


@dataclass(eq=False, slots=True)
class _Work:
    """A piece of work.

    Attributes:
        promised: Its result.
        message: The function and its arguments, pickled.
        timeout_s: Its time limit in seconds.
    """

    promised: Future[Any]
    message: bytes
    timeout_s: float


@dataclass(eq=False, slots=True)
class _Worker:
    """A process, and what it is doing.

    Attributes:
        process: The process.
        pipe: This process's end of its pipe.
        work: What it was given and has not answered; None where it waits.
        deadline: Time of the monotonic clock at which it is stopped; the limit counts from when it took its work.
    """

    process: BaseProcess
    pipe: Connection
    work: _Work | None = None
    deadline: float = math.inf


class ProcessExecutor:
    """Worker processes of this machine, each with its share of the memory.

    A thread hands out the work and watches. It waits for answers and for the end of processes alike, so that a worker
    that ends is noticed at once, whatever its exit code says. Limits are on the monotonic clock: the time of day may be
    set while work is under way.
    """

    def __init__(self, jobs: int, memory_of: int | None = None) -> None:
        """Prepare processes; each starts with the first piece of work for which no other is free.

        Args:
            jobs: How many processes.
            memory_of: Among how many processes the memory is shared, where it is not `jobs`.

        Raises:
            OSError: This process may not open as many files as they take.
        """
        if not workers.allow_files(jobs):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        self._jobs, self._context = jobs, workers.context()
        self._begin = workers.share_of_memory(memory_of or jobs), workers.environment()
        self._workers: list[_Worker] = []
        self._waiting: deque[_Work] = deque()
        self._lock = threading.Lock()  # of `_waiting` and of the three flags
        self._called = self._closing = self._stopping = False
        self._calls, self._call = self._context.Pipe(duplex=False)  # an eventfd would be shorter, on Linux alone
        self._thread = threading.Thread(target=self._watch, name="lab-executor", daemon=True)

    @property
    def workers(self) -> int:
        """How many functions run at a time."""
        return self._jobs

    def submit(self, function: Callable[..., Any], *args: Any, timeout_s: float) -> Future[Any]:  # noqa: ANN401
        """Run a function in a process; see `Executor.submit`."""
        promised: Future[Any] = Future()
        promised.set_running_or_notify_cancel()
        try:
            message = pickle.dumps((function, args), pickle.HIGHEST_PROTOCOL)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            promised.set_exception(error)
            return promised
        with self._lock:
            if self._closing:
                promised.set_exception(_stopped())
                return promised
            self._waiting.append(_Work(promised, message, timeout_s))
            if self._thread.ident is None:
                self._thread.start()
                # an executor whose context nobody left would hold the program, and a process of multiprocessing, too
                self._finalizer = Finalize(None, self.__exit__, (SystemExit, None, None), exitpriority=0)
        self._wake()
        return promised

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._closing, self._stopping = True, kind is not None
            started = self._thread.ident is not None
        if started:
            self._wake()
            self._thread.join()
            self._finalizer.cancel()
        self._calls.close()
        self._call.close()

    def _wake(self) -> None:
        """Wake the thread; one call that it has not received yet is enough."""
        with self._lock:
            called, self._called = self._called, True
        if not called:
            self._call.send_bytes(_BEGUN)

    def _watch(self) -> None:
        """The thread: work until nothing more can come; then, or after a mistake of our own, nobody waits in vain."""
        end: Exception = _stopped()
        try:
            self._go_on()
        except Exception as error:  # noqa: BLE001 - it would be lost with the thread
            end = error
        with self._lock:
            self._closing = True
        for worker in self._workers:
            if worker.work is None:
                worker.pipe.close()  # it ends, while the others hear it, too
        for worker in tuple(self._workers):
            self._dismiss(worker, end)
        for work in self._waiting:
            work.promised.set_exception(end)

    def _go_on(self) -> None:
        """Hand out work, take answers and notice ends."""
        while not self._is_over():
            self._hand_out()
            handles = [handle for one in self._workers for handle in (one.pipe, one.process.sentinel)]
            first = min((one.deadline for one in self._workers), default=math.inf)
            left = None if first == math.inf else max(0.0, first - time.monotonic())
            ready = wait([self._calls, *handles], left)
            if self._calls in ready:
                with self._lock:
                    self._called = False
                self._calls.recv_bytes()
            for worker in tuple(self._workers):
                self._look_at(worker, ready)

    def _is_over(self) -> bool:
        with self._lock:
            idle = not self._waiting and all(worker.work is None for worker in self._workers)
            return self._stopping or (self._closing and idle)

    def _hand_out(self) -> None:
        """Give work that waits to workers that wait; start one where all are busy and there may be more."""
        while self._waiting:
            free = next((worker for worker in self._workers if worker.work is None), None)
            if free is None and len(self._workers) == self._jobs:
                return
            with self._lock:
                work = self._waiting.popleft()
            try:
                free = free or self._started()
            except (OSError, EOFError) as error:
                reason = WorkerLostError(f"no worker process could be started: {error}", killed=True)
                work.promised.set_exception(reason)
                continue
            free.work = work
            with contextlib.suppress(OSError):  # it ended, which its sentinel says
                free.pipe.send_bytes(work.message)

    def _started(self) -> _Worker:
        """Start a worker.

        Raises:
            OSError, EOFError: There is no more room for processes, or their server ends again and again.
        """
        for _ in range(_STARTS - 1):
            with contextlib.suppress(OSError, EOFError):  # the server was killed, which shows a moment later
                return self._start()
            time.sleep(_PAUSE_S)
        return self._start()

    def _start(self) -> _Worker:
        context = workers.context()  # starts the server again if it has ended
        pipe, theirs = context.Pipe()
        with theirs:  # only the worker holds its end then, so that its death closes the pipe
            process = context.Process(  # type: ignore[attr-defined]  # each kind of context has its own
                target=_serve, args=(theirs, *self._begin), name="lab-worker"
            )
            try:
                with workers.handed_down():
                    process.start()
            except BaseException:
                pipe.close()
                raise
        self._workers.append(_Worker(process, pipe))
        return self._workers[-1]

    def _look_at(self, worker: _Worker, ready: Collection[object]) -> None:
        """Go on with one worker after a wait."""
        if worker.pipe in ready:
            try:
                message = worker.pipe.recv_bytes()
            except (EOFError, OSError):
                self._lost(worker)
            else:
                self._hear(worker, message)
        elif worker.process.sentinel in ready:
            self._lost(worker)
        elif worker.work is not None and time.monotonic() >= worker.deadline:
            worker.work.promised.set_exception(TimeoutError(f"stopped after {worker.work.timeout_s:g} s"))
            worker.work = None
            self._kill(worker)

    @staticmethod
    def _hear(worker: _Worker, message: bytes) -> None:
        work = worker.work
        if work is None:
            return  # the user's own code writes into our pipe
        if message == _BEGUN:
            worker.deadline = time.monotonic() + work.timeout_s
            return
        worker.work, worker.deadline = None, math.inf
        try:
            result, packed = pickle.loads(message)  # noqa: S301 - of our own worker
            error = None if packed is None else unpack_error(packed)
        except Exception as unread:  # noqa: BLE001 - whatever its class does when it is read
            result, error = None, unread
        if error is None:
            work.promised.set_result(result)
        else:
            work.promised.set_exception(error)

    def _lost(self, worker: _Worker) -> None:
        """Say how a worker ended, whose work is lost.

        Where the server of processes was killed, nobody tells how its children end: they seem to have ended, but are
        there, and their work is lost with them.
        """
        worker.process.join(_PATIENCE_S)
        code, work = worker.process.exitcode, worker.work
        orphaned = code is not None and _exists(_id(worker.process))
        worker.work = None
        self._kill(worker)
        if work is not None:
            ending = "the server of worker processes was killed" if orphaned else _ending(code)
            work.promised.set_exception(WorkerLostError(ending, killed=orphaned or code == -signal.SIGKILL))

    def _dismiss(self, worker: _Worker, end: Exception) -> None:
        """End a worker: one that waits has heard that its pipe is closed, one that works is killed."""
        work, worker.work = worker.work, None
        if work is None:
            worker.process.join(_PATIENCE_S)
        self._kill(worker)
        if work is not None:
            work.promised.set_exception(end)

    def _kill(self, worker: _Worker) -> None:
        """Kill what is left of a worker and of the commands that it ran, which are in its group of processes."""
        self._workers.remove(worker)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(_id(worker.process), signal.SIGKILL)
        if worker.process.is_alive():  # it has no group yet
            worker.process.kill()
        worker.process.join()
        worker.process.close()
        worker.pipe.close()


class WorkerTraceback(Exception):  # noqa: N818 - the cause of an error, which prints where it was raised
    """Where an error was raised in a worker, as text."""


PackedError = tuple[bytes, str]
"""An error, pickled, and its traceback as text."""


def pack_error(error: Exception) -> PackedError:
    """Return an error for another process; one that cannot be read again becomes a `RuntimeError` with its text."""
    trace = "\n" + "".join(traceback.format_exception(error))
    try:
        message = pickle.dumps(error)
        pickle.loads(message)  # noqa: S301 - some errors can be written and not read
    except Exception:  # noqa: BLE001 - whatever its class does
        message = pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
    return message, trace


def unpack_error(packed: PackedError) -> Exception:
    """Return an error of another process; its cause says where it was raised there."""
    message, trace = packed
    error: Exception = pickle.loads(message)  # noqa: S301 - of our own worker
    error.__cause__ = WorkerTraceback(trace)
    return error


def _id(process: BaseProcess) -> int:
    """The id of a process that was started; never 0, which would stand for our own group."""
    if not process.pid:
        raise ValueError("the process was not started")
    return process.pid


def _exists(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def _stopped() -> WorkerLostError:
    return WorkerLostError("the workers were stopped", killed=False)


def _ending(code: int | None) -> str:
    """How a process ended, by its exit code."""
    if code is None:
        return "it closed its pipe"
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {-code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"signal {-code}"


def _serve(pipe: Connection, memory_bytes: int, environment: Mapping[str, str]) -> None:
    """Be a worker: call what comes through the pipe until its other end is closed."""
    workers.begin(memory_bytes, environment)
    with contextlib.suppress(EOFError, OSError):
        while True:
            message = pipe.recv_bytes()
            pipe.send_bytes(_BEGUN)
            pipe.send_bytes(_answer(message))


def _answer(message: bytes) -> bytes:
    """Call a function; its result and its error, of which one is None."""
    try:
        function, args = pickle.loads(message)  # noqa: S301 - of our own parent
        return pickle.dumps((function(*args), None), pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # noqa: BLE001 - it is the caller's
        return pickle.dumps((None, pack_error(error)))
    except BaseException as error:  # noqa: BLE001 - `sys.exit` must not end the caller
        lost = WorkerLostError(f"{type(error).__name__}: {error}", killed=False)
        lost.__cause__ = error
        return pickle.dumps((None, pack_error(lost)))
