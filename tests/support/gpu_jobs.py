"""Jobs for the fake device: y = 2 x, with the operator of `fake_operator.py`."""

from __future__ import annotations

from pathlib import Path

from lab.gpu.process.job import Job, Policy
from lab.templates.launches import Launch, Launches

HERE = Path(__file__).parent
QUIET = Policy(warmup_ms=0.0, rewarm_ms=0.0, warmup_limit_ms=0.0, baseline="fake", timeout_s=60.0)
"""No warm-up; the fake baseline beside every kernel."""


def sequence(*entries: str) -> Launches:
    """One launch of one block for each entry point; the first names what the fake device does."""
    return Launches(tuple(Launch(entry, (1, 1, 1), (32, 1, 1), 0, ()) for entry in entries))


def job(kernel: str = "double", ms: float = 4, n: int = 16, operator: str = "Double") -> Job:
    """A job of one launch that takes `ms` milliseconds."""
    return Job("v1", f"{ms:g}".encode(), sequence(kernel), f"fake_operator.py:{operator}", {"n": n}, 0, HERE)
