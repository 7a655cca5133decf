"""The program that the profiler watches: load each variant, launch its sequence once, and say so.

``python -m lab.gpu.counters.profiled ORDERS LOG``. ORDERS holds pickled pairs of a job and the state of L2; LOG
gets a line of JSON for each: the variant, how often its sequence was launched, and the error where it could not be.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path

from lab.gpu.device.backend import Backend
from lab.gpu.process.job import Flush, Policy
from lab.gpu.process.worker import Worker, cuda_backend

COLD = Policy(check=False, measure=False, baseline=None, launches=1, flush=Flush.ON)
WARM = Policy(check=False, measure=False, baseline=None, launches=2, flush=Flush.OFF)
"""From a warm L2 the second sequence counts, which finds there what the first one left."""


def main(arguments: list[str], factory: Callable[[], Backend] = cuda_backend) -> None:
    """Launch every variant of a file, in order; a CUDA error ends it, since it may have cost the context."""
    orders, log = (Path(argument) for argument in arguments)
    os.dup2(2, 1)  # a kernel's printf must not land in the profiler's table
    jobs = pickle.loads(orders.read_bytes())  # noqa: S301 - written by the parent process
    with log.open("w", encoding="utf-8") as lines:
        backend = factory()
        worker = Worker(backend, _unheard)
        for job, cache in jobs:
            policy = WARM if cache == "warm" else COLD
            answer = worker.answer(job, policy)
            failure = answer.result.failure
            said = {
                "variant": job.variant,
                "times": 0 if failure else policy.launches,
                "error": failure.reason if failure else "",
            }
            lines.write(json.dumps(said) + "\n")
            lines.flush()
            if not answer.usable:
                break
        backend.close()


def _unheard(progress: object) -> None:
    """The parent watches the profiler alone."""
    del progress


if __name__ == "__main__":
    main(sys.argv[1:])
