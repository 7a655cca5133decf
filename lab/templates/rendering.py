"""Template rendering in a separate process with limited time and memory.

`lab.templates.sandbox` bounds what a template can do, step by step; this process is the wall behind those bounds. One
is started with the first rendering and kept, since starting takes far longer than rendering: it keeps compiled
templates, and a request and its answer take a fraction of a millisecond. It reads its requests from a pipe, and so it
ends with the process that started it.

Messages are JSON, four bytes of length in front: a list of requests, and the list of their answers. A request holds a
template's name, its folders and the names that it may refer to; an answer holds the text, or the parts of an error.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import resource
import select
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO, Any, NoReturn

from lab.base.errors import Location, UserError
from lab.base.workers import environment
from lab.templates.sandbox import MOST_OUTPUT, rendered
from lab.templates.values import packed, unpacked

_LENGTH = struct.Struct(">I")
_BATCH = 32
"""Most templates per message."""

_MOST_BYTES = _BATCH * 4 * MOST_OUTPUT
"""Size limit of an answer in bytes: JSON takes up to twelve bytes per character, mostly one."""

_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from lab.templates.rendering import serve; serve()"
"""The code of the process, with this process's module path."""

_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""Thread limits for NumPy's library, which would otherwise reserve memory for each core."""


@dataclass(frozen=True, slots=True)
class RenderLimits:
    """Resource limits of one rendering.

    Attributes:
        cpu_s: Seconds of computing.
        wall_s: Seconds until the answer, the start of the process included; long, since a machine may be busy.
        memory_bytes: Of the process, everything that it has loaded included.
    """

    cpu_s: float = 10.0
    wall_s: float = 120.0
    memory_bytes: int = 2 << 30


@dataclass(frozen=True, slots=True)
class RenderRequest:
    """One template to render.

    Attributes:
        name: Its name below one of the roots.
        roots: Folders in which it and what it includes lie.
        names: What it may refer to: scalars and `lab.base.facts.FactValue`s.
        file: The template, for errors.
    """

    name: str
    roots: tuple[Path, ...]
    names: Mapping[str, object]
    file: Path

    def packed(self) -> dict[str, Any]:
        """Return the request as JSON values."""
        names = {key: packed(value) for key, value in self.names.items()}
        return {"name": self.name, "roots": [str(root) for root in self.roots], "names": names}


@dataclass
class Renderer:
    """A rendering process, started on demand and restarted after it was stopped."""

    limits: RenderLimits = field(default_factory=RenderLimits)
    _process: subprocess.Popen[bytes] | None = None
    _owner: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        """Start the process if needed; it loads its modules in the background."""
        with self._lock:
            self._started()

    def render(self, name: str, roots: tuple[Path, ...], names: Mapping[str, object], *, file: Path) -> str:
        """Render one template; see `render_all`."""
        return self.render_all([RenderRequest(name, roots, names, file)])[0]

    def render_all(self, requests: Sequence[RenderRequest]) -> list[str]:
        """Render templates in batches, so that thousands share one process.

        Raises:
            UserError: A template fails, with its line; or it takes more time or memory than the limits allow.
        """
        texts: list[str] = []
        with self._lock:
            for i in range(0, len(requests), _BATCH):
                texts += self._batch(requests[i : i + _BATCH])
        return texts

    def _batch(self, requests: Sequence[RenderRequest]) -> list[str]:
        message = json.dumps([request.packed() for request in requests]).encode()
        answers = self._asked(message, Location(requests[0].file), alone=len(requests) == 1)
        if answers is None:  # one at a time, to tell which of them takes too much
            return [text for request in requests for text in self._batch([request])]
        return [_text(answer, request.file) for answer, request in zip(answers, requests, strict=True)]

    def stop(self) -> None:
        """End the process, if there is one."""
        process, self._process = self._process, None
        if process is None or self._owner != os.getpid():
            return
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def _asked(self, request: bytes, at: Location, *, alone: bool) -> list[Any] | None:
        """Return the answers; None if several requests have no answer."""
        try:
            process = self._started()
            assert process.stdin is not None  # noqa: S101 - made with pipes
            assert process.stdout is not None  # noqa: S101
            with contextlib.suppress(BrokenPipeError):  # it has ended; the answer's absence says so
                _send(process.stdin, request)
            answer = _received(process.stdout, time.monotonic() + self.limits.wall_s)
            if answer is None and alone:
                self._refuse(process, at)
            if answer is None:
                self.stop()
                return None
            return list(json.loads(answer))
        except BaseException:
            self.stop()  # a half-read answer must not meet the next request
            raise

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._owner == os.getpid() and self._process.poll() is None:
            return self._process
        self.stop()
        self._owner = os.getpid()
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, json.dumps(sys.path), json.dumps(self._given())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**environment(), **_ONE_THREAD},
            bufsize=0,
        )
        atexit.register(self.stop)
        return self._process

    def _given(self) -> dict[str, float]:
        return {"cpu_s": self.limits.cpu_s, "memory_bytes": self.limits.memory_bytes}

    def _refuse(self, process: subprocess.Popen[bytes], at: Location) -> NoReturn:
        """Raise the error for a missing answer."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(1.0)
        limits, ended = self.limits, process.poll()
        if ended == -signal.SIGPROF:
            raise UserError(
                f"rendering the template takes more than {limits.cpu_s:g} s of computing", code="out-of-range", at=at
            )
        if ended is None:
            raise UserError(f"rendering the template takes longer than {limits.wall_s:g} s", code="out-of-range", at=at)
        cause = f"signal {-ended}" if ended < 0 else f"exit code {ended}"
        message = f"the process that renders the template ended ({cause}): the template may need too much memory"
        raise UserError(message, code="out-of-range", at=at, accepted=f"at most {limits.memory_bytes >> 20} MiB")


@cache
def renderer() -> Renderer:
    """Return this process's renderer."""
    return Renderer()


def _text(answer: Mapping[str, Any], file: Path) -> str:
    if "text" in answer:
        return str(answer["text"])
    details = answer["error"]
    at = Location(Path(details["file"]), details["line"]) if details["file"] else Location(file)
    raise UserError(
        details["message"],
        code=details["code"],
        at=at,
        found=details["found"],
        accepted=details["accepted"],
        suggestion=details["suggestion"],
    )


def _send(stream: IO[bytes], message: bytes) -> None:
    waiting = memoryview(_LENGTH.pack(len(message)) + message)
    while waiting:
        waiting = waiting[stream.write(waiting) :]


def _received(stream: IO[bytes], deadline: float | None) -> bytes | None:
    """Return a message; None if the other side ends or the optional deadline passes first."""
    head = _read(stream, _LENGTH.size, deadline)
    if head is None:
        return None
    (length,) = _LENGTH.unpack(head)
    return _read(stream, length, deadline) if length <= _MOST_BYTES else None


def _read(stream: IO[bytes], length: int, deadline: float | None) -> bytes | None:
    parts, remaining = [], length
    while remaining:
        wait = None if deadline is None else max(0.0, deadline - time.monotonic())
        ready, _, _ = select.select([stream], [], [], wait)
        chunk = os.read(stream.fileno(), min(remaining, 1 << 20)) if ready else b""
        if not chunk:
            return None
        parts.append(chunk)
        remaining -= len(chunk)
    return b"".join(parts)


# ---- the other side


def serve() -> None:
    """Serve rendering requests from standard input until it closes."""
    limits = json.loads(sys.argv[2])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asks; this one ends with its pipe
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    memory_limit = int(limits["memory_bytes"])
    memory_limit = memory_limit if hard == resource.RLIM_INFINITY else min(memory_limit, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (memory_limit, hard))
    incoming, answers = (open(end, mode, buffering=0) for end, mode in ((0, "rb"), (1, "wb")))  # noqa: SIM115, PTH123
    while (request := _received(incoming, None)) is not None:
        replies = []
        for job in json.loads(request):
            signal.setitimer(
                signal.ITIMER_PROF, float(limits["cpu_s"])
            )  # its signal ends the process, whatever it does
            replies.append(answered(job))
        signal.setitimer(signal.ITIMER_PROF, 0)
        _send(answers, json.dumps(replies).encode())


def answered(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer to a request."""
    try:
        names = {name: unpacked(value) for name, value in request["names"].items()}
        return {"text": rendered(request["name"], tuple(map(Path, request["roots"])), names)}
    except UserError as error:
        place = error.at
        found_text = None if error.found is None else str(error.found)
        return {
            "error": {
                "message": error.message,
                "code": error.code,
                "file": str(place.file) if place else "",
                "line": place.line if place else None,
                "found": found_text,
                "accepted": error.accepted if isinstance(error.accepted, str | None) else list(error.accepted),
                "suggestion": error.suggestion,
            }
        }
