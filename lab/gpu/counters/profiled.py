"""The program that the profiler watches: load each variant, launch its sequence, and log it.

``python -m lab.gpu.counters.profiled ORDERS LOG [CARD]``. ORDERS holds pickled pairs of a job and the state of L2; LOG
gets a line of JSON for each: the variant, the number of times its sequence was launched, and an error if it failed.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path

from lab.gpu.device.backend import Backend
from lab.gpu.process.job import Policy
from lab.gpu.process.runner import JobRunner
from lab.gpu.process.worker import cuda_backend
from lab.gpu.timing.cache import WARM, Flush


def policy_for(cache: str) -> Policy:
    """Return how to launch a variant from a cold or a warm L2.

    From a warm L2 the sequence is launched twice, and the second one counts: it finds what the first one left.
    """
    times = 2 if cache == WARM else 1
    return Policy(check=False, measure=False, baseline=None, launches=times, flush=Flush.of(cache))


def main(arguments: list[str], factory: Callable[..., Backend] = cuda_backend) -> None:
    """Launch every variant of a file, in order; a CUDA error ends the program, since it may have cost the context.

    Args:
        arguments: The files ORDERS and LOG, and what ``CUDA_VISIBLE_DEVICES`` is to be, if not what it is.
        factory: Opens the device.
    """
    orders, log, card = Path(arguments[0]), Path(arguments[1]), arguments[2:]
    os.dup2(2, 1)  # a kernel's printf must not appear in the profiler's table
    jobs = pickle.loads(orders.read_bytes())  # noqa: S301 - written by the parent process
    with log.open("w", encoding="utf-8") as lines:
        backend = factory(*card)
        runner = JobRunner(backend, _ignored)
        for job, cache in jobs:
            policy = policy_for(cache)
            answer = runner.answer(job, policy)
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


def _ignored(progress: object) -> None:
    """Drop signs of life: the parent watches only the profiler."""
    del progress


if __name__ == "__main__":
    main(sys.argv[1:])
