"""The worker process: the only place where a kernel runs.

A kernel can hang, trap or write out of bounds, and each of these may cost the CUDA context. The worker is therefore
expendable: it takes one job at a time over a pipe, reports its activity, and answers with a result and whether it
is still usable. `lab.gpu.process.session` watches it from outside.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, Protocol

from lab.base import workers
from lab.base.errors import MissingToolError
from lab.gpu.baselines.cublas import plain_arithmetic
from lab.gpu.device.backend import Backend
from lab.gpu.device.describe import device_id, probe
from lab.gpu.process.messages import JobOrder, Ready, Unusable
from lab.gpu.process.relay import StdoutRelay
from lab.gpu.process.runner import JobRunner, in_words
from lab.gpu.timing.survey import Survey


class Pipe(Protocol):
    """The worker's end of the pipe."""

    def recv(self) -> Any:  # noqa: ANN401 - a pickled message
        """Wait for a message.

        Raises:
            EOFError: The parent closed its end.
        """

    def send(self, message: Any, /) -> None:  # noqa: ANN401 - a pickled message
        """Send a message."""


def cuda_backend(visible: str = "") -> Backend:
    """Open a GPU through PyCUDA.

    Args:
        visible: Value of ``CUDA_VISIBLE_DEVICES`` for this process and its children; empty keeps the current value and
            opens the first visible GPU.

    Raises:
        MissingToolError: There is no GPU, or PyCUDA is missing.
    """
    if visible:
        os.environ["CUDA_VISIBLE_DEVICES"] = visible  # the driver reads it when it starts, below
    gpu = probe()
    if isinstance(gpu, str):
        raise MissingToolError(gpu)
    if visible and (opened := device_id(0)) != visible:
        raise MissingToolError(
            f"CUDA_VISIBLE_DEVICES={visible} opened {opened}: CUDA was initialised before it was set"
        )
    from lab.gpu.device.cuda import CudaBackend  # noqa: PLC0415 - PyCUDA is imported in the worker only

    return CudaBackend()


def main(connection: Connection, factory: Callable[[], Backend]) -> None:
    """Serve jobs until the parent closes the pipe, sends None or dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    plain_arithmetic(os.environ)
    relay = StdoutRelay()  # a kernel's printf must not appear in the command's output
    workers.end_with_parent()  # otherwise a kernel that hangs would hold the GPU after the parent was killed
    try:
        backend = factory()
        connection.send(Ready(backend.describe()))
    except Exception as error:  # noqa: BLE001 - the parent must learn of any failure
        connection.send(Unusable(in_words(error)))
        return
    usable = serve(connection, JobRunner(backend, connection.send))
    relay.close()
    if usable:
        backend.close()
        sys.stderr.flush()
        os._exit(0)  # the driver frees everything; destructors would only complain about the order
    connection.close()
    os._exit(1)  # the context is lost: nothing can be released in order


def serve(pipe: Pipe, runner: JobRunner) -> bool:
    """Serve jobs and surveys until the parent ends the worker or a job loses the context.

    Returns:
        Whether the context is still usable.
    """
    while True:
        try:
            order: JobOrder | Survey | None = pipe.recv()
        except (EOFError, OSError):
            return True
        if order is None:
            return True
        answer = runner.survey(order) if isinstance(order, Survey) else runner.answer(order.job, order.policy)
        pipe.send(answer)
        if not answer.usable:
            return False
