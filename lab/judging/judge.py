"""Judges a candidate: compile, execute under every condition, and gather the verdict."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from lab.base.errors import ClusterError, LabError, MissingToolError, UserError
from lab.base.executor import Executor, ProcessExecutor, WorkerLostError
from lab.base.files import read_regular
from lab.judging.faults import Examination, Fault, PredictedTime, Ruling, TrialOutcome, ranked
from lab.judging.remote import baseline_time, examine, prepare, try_candidate
from lab.judging.task import CandidateError, Request, Task, candidate_of, load_task
from lab.judging.verdict import Judgement
from lab.toolchain.includes import decoded_source

_WORKERS: Final = 2
"""Processes of one verdict: the pipeline's checks and the further ones run side by side."""

_SEEDS: Final = 2**31

Outcome = TypeVar("Outcome")
Follower = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class JudgeOptions:
    """Options of a verdict.

    Attributes:
        seed: Seed of everything that is drawn; None draws one.
        executor: Workers to use; by default new ones, which take a second to start.
        follow: Receives the name of each step.
    """

    seed: int | None = None
    executor: Executor | None = None
    follow: Follower = lambda _: None


def judge_file(task_file: Path, candidate_file: Path, options: JudgeOptions | None = None) -> Judgement:
    """Judge a candidate's file.

    Raises:
        UserError: The task is wrong, or a file cannot be read.
        MissingToolError: A compiler for the candidate is missing.
    """
    task = load_task(task_file)
    try:
        data = read_regular(candidate_file, task.raw.limits.source_bytes, "the candidate")
    except UserError as error:
        if error.code != "out-of-range":
            raise
        fault = Fault(Ruling.WRONG, "declaration", "the source is too large")
        return Judgement(task, "", _seed(options or JudgeOptions()), (fault,))
    return judge_text(task, decoded_source(data).replace("\r", "\n"), candidate_file.name, options)


def judge_text(task: Task, text: str, file: str, options: JudgeOptions | None = None) -> Judgement:
    """Judge a candidate's source; see `judge_file`.

    Args:
        task: The task.
        text: The source.
        file: Its name, whose suffix says the kind of source.
        options: The seed and the workers.
    """
    options = options or JudgeOptions()
    request = Request(task.file, task.document.text, file, text, _seed(options))
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    verdict = Judgement(task, digest, request.seed)
    try:
        candidate_of(text, file, task)
    except CandidateError as error:
        fault = Fault(Ruling.WRONG, "declaration", "; ".join(map(str.strip, str(error).splitlines())))
        return replace(verdict, faults=(fault,))
    opened: AbstractContextManager[Executor] = (
        nullcontext(options.executor) if options.executor is not None else ProcessExecutor(_WORKERS)
    )
    with opened as executor:
        return _judged(verdict, request, executor, options.follow)


def _seed(options: JudgeOptions) -> int:
    return options.seed if options.seed is not None else secrets.randbelow(_SEEDS)


def _judged(verdict: Judgement, request: Request, executor: Executor, follow: Follower) -> Judgement:
    task = verdict.task
    seconds = task.raw.limits.seconds
    follow("compile")
    rejected = _result(executor.submit(prepare, request, timeout_s=seconds), "compile")
    if isinstance(rejected, Fault):
        return replace(verdict, faults=(rejected,))
    follow("execute")
    running = executor.submit(examine, request, timeout_s=seconds)
    trying = executor.submit(try_candidate, request, timeout_s=seconds)
    baseline_model = task.raw.baseline
    comparing = (
        executor.submit(baseline_time, request, timeout_s=seconds) if baseline_model and baseline_model.source else None
    )
    examination = _result(running, "small size")
    follow("try hidden problems")
    trials = _result(trying, "hidden problem")
    faults = list[Fault]()
    if isinstance(examination, Fault):
        faults, examination = [examination], Examination()
    if isinstance(trials, Fault):
        faults, trials = [*faults, trials], TrialOutcome()
    faults += [*cast("Examination", examination).faults, *cast("TrialOutcome", trials).faults]
    baseline = _result(comparing, "baseline") if comparing is not None else None
    if baseline_model is not None and baseline_model.ms is not None:
        us = 1000 * baseline_model.ms
        baseline = PredictedTime(us, us, us)
    return replace(
        verdict,
        faults=ranked(_distinct(faults)),
        examination=cast("Examination", examination),
        trials=cast("TrialOutcome", trials),
        baseline=baseline if isinstance(baseline, PredictedTime) else None,
    )


def _distinct(faults: list[Fault]) -> list[Fault]:
    """Return the faults, each reason once."""
    return list({(fault.check, fault.reason): fault for fault in faults}.values())


def _result(future: Future[Any], check: str) -> object:
    """Return the result of a worker, or the fault of a candidate that cost the worker its time, memory or life.

    Raises:
        UserError: The task is wrong.
        MissingToolError: A tool is missing.
    """
    try:
        return future.result()
    except TimeoutError as error:
        reason = f"it {error}, the limit of the task"
    except MemoryError:
        reason = "it needs more memory than a worker has"
    except WorkerLostError as error:
        reason = f"the worker process ended: {error}"
    except (UserError, MissingToolError, ClusterError):
        raise
    except LabError as error:
        reason = " ".join(str(error).split())
    except Exception as error:  # noqa: BLE001 - a mistake of our own must not accept a candidate
        reason = f"lab itself failed: {type(error).__name__}: {' '.join(str(error).split())}"
    return Fault(Ruling.NOT_JUDGED, check, reason)
