"""Executors of functions: the protocol that a scheduler uses, and the local pool of worker processes.

An executor on a cluster, such as Dask's, implements the same three members and can replace `ProcessExecutor`.

The pool is our own: if one worker crashes or is killed, the pools of the standard library and loky fail all tasks.
Pebble stops only that worker, but it measures time with a clock that can be set, and leaves subprocesses running.
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
    """A worker process ended before its task did."""

    exit_code = 3

    def __init__(self, message: str, *, killed: bool) -> None:
        """Describe the loss.

        Args:
            message: How the process ended.
            killed: It was ended by SIGKILL, which comes from outside (a user, the OOM killer): a retry of the task may
                succeed.
        """
        self.killed = killed
        super().__init__(message)

    def __reduce__(self) -> tuple[object, ...]:
        return partial(WorkerLostError, killed=self.killed), (str(self),)


class Executor(AbstractContextManager["Executor"], Protocol):
    """Runs functions on workers. A context manager: leaving it stops the workers, an exception stops them at once.

    Attributes:
        workers: Number of functions that run concurrently.
    """

    @property
    def workers(self) -> int:
        """The number of functions that run concurrently."""

    def submit(self, function: Callable[..., Any], *args: Any, timeout_s: float) -> Future[Any]:  # noqa: ANN401
        """Run a module-level function on a worker.

        Args:
            function: The function; it and its arguments must be picklable.
            args: Its arguments.
            timeout_s: Seconds after which it is stopped.

        Returns:
            Its result. `Future.result` raises what the function raised, `TimeoutError` after `timeout_s` seconds,
            `MemoryError` if it exceeded its share of memory, and `WorkerLostError` if its worker ended.
        """


_BEGUN = b""
"""Message of a worker that has started a task; the answer follows."""

_STARTS, _PAUSE_S = 5, 0.1
"""Attempts to start a worker before its task counts as lost, and the seconds between two attempts."""

_PATIENCE_S = 2.0
"""Seconds that a worker may take to exit before it is killed."""


@dataclass(eq=False, slots=True)
class _Work:
    """A task.

    Attributes:
        promised: Future of its result.
        message: The function and its arguments, pickled.
        timeout_s: Its time limit in seconds.
    """

    promised: Future[Any]
    message: bytes
    timeout_s: float


@dataclass(eq=False, slots=True)
class _Worker:
    """A process and its current task.

    Attributes:
        process: The process.
        pipe: This process's end of its pipe.
        work: The task it has not answered yet; None if it is idle.
        deadline: Time on the monotonic clock at which it is stopped; the limit counts from the start of the task.
    """

    process: BaseProcess
    pipe: Connection
    work: _Work | None = None
    deadline: float = math.inf


class ProcessExecutor:
    """Worker processes of this machine, each with its share of the memory.

    A thread dispatches the tasks and monitors the workers. It waits for answers and for process exits alike, so it
    notices at once when a worker ends, whatever the exit code. Time limits use the monotonic clock: the time of day
    may be set while tasks run.
    """

    def __init__(self, jobs: int, memory_of: int | None = None) -> None:
        """Prepare processes; each starts with the first task for which no other is free.

        Args:
            jobs: Number of processes.
            memory_of: Number of processes that share the memory, if not `jobs`.

        Raises:
            OSError: The limit of open files is too low for this many processes.
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
        """The number of functions that run concurrently."""
        return self._jobs

    def submit(self, function: Callable[..., Any], *args: Any, timeout_s: float) -> Future[Any]:  # noqa: ANN401
        """Run a function in a process; see `Executor.submit`."""
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        try:
            message = pickle.dumps((function, args), pickle.HIGHEST_PROTOCOL)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            future.set_exception(error)
            return future
        with self._lock:
            if self._closing:
                future.set_exception(_stopped())
                return future
            self._waiting.append(_Work(future, message, timeout_s))
            if self._thread.ident is None:
                self._thread.start()
                # without this, an executor whose context was never left would keep the process from exiting
                self._finalizer = Finalize(None, self.__exit__, (SystemExit, None, None), exitpriority=0)
        self._wake()
        return future

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
        """Wake the thread; one pending wake-up is enough."""
        with self._lock:
            called, self._called = self._called, True
        if not called:
            self._call.send_bytes(_BEGUN)

    def _watch(self) -> None:
        """Run the dispatch loop until it is over, then fail every task that is left, also after an internal error."""
        end: Exception = _stopped()
        try:
            self._go_on()
        except Exception as error:  # noqa: BLE001 - it would be lost with the thread
            end = error
        with self._lock:
            self._closing = True
        for worker in self._workers:
            if worker.work is None:
                worker.pipe.close()  # tell all idle workers first, so that they exit concurrently
        for worker in tuple(self._workers):
            self._dismiss(worker, end)
        for work in self._waiting:
            work.promised.set_exception(end)

    def _go_on(self) -> None:
        """Dispatch tasks, receive answers and notice process exits."""
        while not self._is_over():
            self._hand_out()
            handles = [
                handle
                for process_worker in self._workers
                for handle in (process_worker.pipe, process_worker.process.sentinel)
            ]
            first = min((process_worker.deadline for process_worker in self._workers), default=math.inf)
            timeout_s = None if first == math.inf else max(0.0, first - time.monotonic())
            ready = wait([self._calls, *handles], timeout_s)
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
        """Give waiting tasks to idle workers; start a worker if all are busy and the limit allows it."""
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
            with contextlib.suppress(OSError):  # it has exited; its sentinel will report that
                free.pipe.send_bytes(work.message)

    def _started(self) -> _Worker:
        """Start a worker.

        Raises:
            OSError, EOFError: No more processes can be created, or the fork server keeps ending.
        """
        for _ in range(_STARTS - 1):
            with contextlib.suppress(OSError, EOFError):  # the server was killed, which is noticed a moment later
                return self._start()
            time.sleep(_PAUSE_S)
        return self._start()

    def _start(self) -> _Worker:
        context = workers.context()  # starts the server again if it has ended
        pipe, theirs = context.Pipe()
        with theirs:  # only the worker then holds its end, so its death closes the pipe
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
        """Handle what a wait has reported of one worker."""
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
            return  # user code has written into our pipe
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
        """Fail the task of a worker that has ended, with the cause.

        If the fork server was killed, the exit status of its children is unknown: they appear to have ended but still
        run, and their tasks are lost.
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
        """End a worker: an idle one exits because its pipe is closed, a busy one is killed."""
        work, worker.work = worker.work, None
        if work is None:
            worker.process.join(_PATIENCE_S)
        self._kill(worker)
        if work is not None:
            work.promised.set_exception(end)

    def _kill(self, worker: _Worker) -> None:
        """Kill a worker and the commands that it started, which share its process group."""
        self._workers.remove(worker)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(_id(worker.process), signal.SIGKILL)
        if worker.process.is_alive():  # it has no group yet
            worker.process.kill()
        worker.process.join()
        worker.process.close()
        worker.pipe.close()


class WorkerTraceback(Exception):  # noqa: N818 - the cause of an error, which prints where it was raised
    """The traceback of an error in a worker, as text."""


PackedError = tuple[bytes, str]
"""A pickled error and its traceback as text."""


def pack_error(error: Exception) -> PackedError:
    """Pack an error for another process; one that cannot be unpickled becomes a `RuntimeError` with its text."""
    trace = "\n" + "".join(traceback.format_exception(error))
    try:
        message = pickle.dumps(error)
        pickle.loads(message)  # noqa: S301 - some errors can be written and not read
    except Exception:  # noqa: BLE001 - whatever its class does
        message = pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
    return message, trace


def unpack_error(packed: PackedError) -> Exception:
    """Return an error of another process; its cause is the traceback there."""
    message, trace = packed
    error: Exception = pickle.loads(message)  # noqa: S301 - of our own worker
    error.__cause__ = WorkerTraceback(trace)
    return error


def _id(process: BaseProcess) -> int:
    """Return the id of a started process; never 0, which would mean our own process group."""
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
    """Describe how a process ended, given its exit code."""
    if code is None:
        return "it closed its pipe"
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {-code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"signal {-code}"


def _serve(pipe: Connection, memory_bytes: int, environment: Mapping[str, str]) -> None:
    """Run a worker: call the functions received through the pipe until its other end is closed."""
    workers.begin(memory_bytes, environment)
    with contextlib.suppress(EOFError, OSError):
        while True:
            message = pipe.recv_bytes()
            pipe.send_bytes(_BEGUN)
            pipe.send_bytes(_answer(message))


def _answer(message: bytes) -> bytes:
    """Call a function and return its result and its error, one of which is None, pickled."""
    try:
        function, args = pickle.loads(message)  # noqa: S301 - of our own parent
        return pickle.dumps((function(*args), None), pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # noqa: BLE001 - it is the caller's
        return pickle.dumps((None, pack_error(error)))
    except BaseException as error:  # noqa: BLE001 - `sys.exit` must not end the caller
        lost = WorkerLostError(f"{type(error).__name__}: {error}", killed=False)
        lost.__cause__ = error
        return pickle.dumps((None, pack_error(lost)))
