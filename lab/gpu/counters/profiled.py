"""The profiled program: load each variant, launch its sequence, and log it.

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
    """Return the launch policy for a cold or a warm L2.

    For a warm L2 the sequence is launched twice and the second one counts, since it finds the first one's data in L2.
    """
    times = 2 if cache == WARM else 1
    return Policy(check=False, measure=False, baseline=None, launches=times, flush=Flush.of(cache))


def main(arguments: list[str], factory: Callable[..., Backend] = cuda_backend) -> None:
    """Launch every variant of a file, in order; a CUDA error ends the program, since the context may be lost.

    Args:
        arguments: The files ORDERS and LOG, and optionally a value of ``CUDA_VISIBLE_DEVICES``.
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
            outcome = {
                "variant": job.variant,
                "times": 0 if failure else policy.launches,
                "error": failure.reason if failure else "",
            }
            lines.write(json.dumps(outcome) + "\n")
            lines.flush()
            if not answer.usable:
                break
        backend.close()


def _ignored(progress: object) -> None:
    """Discard heartbeats, since the parent watches only the profiler."""
    del progress


if __name__ == "__main__":
    main(sys.argv[1:])
