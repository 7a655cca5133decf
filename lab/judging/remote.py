"""The functions that workers call, importable without the pipeline: the imports take a second, in the workers alone."""

from __future__ import annotations

from lab.judging.faults import Examination, Fault, PredictedTime, TrialOutcome
from lab.judging.task import Request


def prepare(request: Request) -> Fault | None:
    """Compile a candidate; see `lab.judging.work.prepare`."""
    from lab.judging import work  # noqa: PLC0415 - see above

    return work.prepare(request)


def examine(request: Request) -> Examination:
    """Execute a candidate as a run would; see `lab.judging.work.examine`."""
    from lab.judging import work  # noqa: PLC0415 - see above

    return work.examine(request)


def try_candidate(request: Request) -> TrialOutcome:
    """Execute a candidate on hidden problems; see `lab.judging.work.try_candidate`."""
    from lab.judging import work  # noqa: PLC0415 - see above

    return work.try_candidate(request)


def baseline_time(request: Request) -> PredictedTime | None:
    """Return the predicted time of a task's baseline; see `lab.judging.work.baseline_time`."""
    from lab.judging import work  # noqa: PLC0415 - see above

    return work.baseline_time(request)
