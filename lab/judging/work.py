"""The parts of a verdict that worker processes compute."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from lab.advice.advise import advise
from lab.advice.evidence import of_variant
from lab.advice.finding import PerformanceFinding
from lab.base.errors import LabError, UserError
from lab.base.files import read_regular
from lab.judging.case import Case, RejectedError, case_of
from lab.judging.evidence import of_difference, of_finding, of_suspicion
from lab.judging.faults import AdvicePoint, Examination, Fault, PredictedTime, Ruling, TrialOutcome
from lab.judging.task import Request, load_task
from lab.judging.trials import constant_outputs, reduces, try_hidden_problems, try_inputs, try_larger
from lab.predict.variant_scores import scores_of_problem
from lab.recorded.run_records import EmulationRecord, Status, VariantRecord
from lab.runs import flow
from lab.stages.estimate import execute
from lab.stages.executed import execution
from lab.toolchain.includes import decoded_source

_CONFIRMED: Final = 3
"""Findings of one kind that a verdict lists."""


def prepare(request: Request) -> Fault | None:
    """Compile a candidate, and return the fault of one that cannot be executed.

    Raises:
        UserError: The task is wrong.
        MissingToolError: Its compiler is missing.
    """
    try:
        case_of(request)
    except RejectedError as error:
        return error.fault
    return None


def examine(request: Request) -> Examination:
    """Execute a compiled candidate as a run would, and read its resources, time and advice.

    Raises:
        UserError: The task is wrong.
    """
    case = case_of(request)
    variant = case.variant
    task = flow.emulation_task(case.context, variant)
    outcome = execute(task, variant.ptx, variant.model)
    judged = flow.judge(variant, outcome)
    record, emulation = judged.record, outcome[0]
    points = () if record.status.failed else _advice(case, record)
    full = emulation.full_size
    faults = _faults(record, emulation, case.seed)
    compared = full is not None and full.compared > 0
    reached = 0
    open_sizes = not compared or reduces(case)
    if not faults and task.full_size is not None and open_sizes:
        faults, reached = try_larger(case, task.full_size)
    untried = [size for size in case.untried_sizes if size >= reached]
    if not faults and open_sizes and untried:
        reason = (
            f"the kernel compares a number with {untried[0]}, which no executed size reaches, and no values "
            "were compared closely at the problem's own size"
        )
        faults = (Fault(Ruling.NOT_JUDGED, "large sizes", reason),)
    return Examination(
        faults=faults,
        not_shown=emulation.not_shown,
        resources=_resources(record),
        time=None if record.status.failed else _time(record),
        advice=points,
        coverage={} if full is None else {"blocks": full.blocks, "of": full.of_blocks, "compared": full.compared},
    )


def _faults(record: VariantRecord, emulation: EmulationRecord, seed: int) -> tuple[Fault, ...]:
    check = "small size"
    faults = [of_finding(check, finding, seed=seed) for finding in emulation.findings[:_CONFIRMED]]
    verification = emulation.verification
    if not faults and verification is not None and not verification.passed:
        faults.append(of_difference(check, verification.worst, seed=seed))
    faults += [of_suspicion(suspicion, seed) for suspicion in emulation.suspicions[:_CONFIRMED]]
    if record.status in (Status.INSPECTED, Status.NOT_EXECUTED):
        faults.append(Fault(Ruling.NOT_JUDGED, check, record.reason))
    elif record.status.failed and not faults:
        faults.append(Fault(Ruling.WRONG, check, record.reason, seed=seed))
    return tuple(faults)


def _resources(record: VariantRecord) -> dict[str, float]:
    if record.build is None:
        return {}
    resources = record.build.resources
    launch = record.launch
    dynamic = launch.dynamic_shared_bytes if launch is not None else 0
    figures: dict[str, float] = {
        "registers": resources.registers,
        "shared_bytes": resources.shared_bytes + dynamic,
        "spill_bytes": resources.spill_bytes,
    }
    if record.prediction is not None:
        figures["occupancy"] = round(record.prediction.occupancy, 3)
    return figures


def _time(record: VariantRecord) -> PredictedTime | None:
    """Return the predicted time of a record; None where the model yields none."""
    score = scores_of_problem([record]).get(record.variant)
    if score is None or record.prediction is None:
        return None
    seconds = (score.seconds, min(score.least_s or score.seconds, score.seconds), max(score.most_s, score.seconds))
    likely, least, most = (_rounded(1e6 * second) for second in seconds)
    return PredictedTime(likely, least, most, record.prediction.gpu, score.bound if score.resources else "")


def _rounded(value: float, digits: int = 4) -> float:
    return round(value, digits - 1 - math.floor(math.log10(value))) if value > 0 else 0.0


def _advice(case: Case, record: VariantRecord) -> tuple[AdvicePoint, ...]:
    try:
        advice = advise(of_variant(record, case.module, None))
    except LabError:
        return ()
    return tuple(map(_point, advice.findings))


def _point(finding: PerformanceFinding) -> AdvicePoint:
    gain = None if finding.gain is None else round(finding.gain, 2)
    return AdvicePoint(str(finding.rule), finding.place.short, finding.cause, finding.remedy, gain)


def try_candidate(request: Request) -> TrialOutcome:
    """Execute a compiled candidate on hidden problems and changed inputs.

    Raises:
        UserError: The task is wrong.
    """
    case = case_of(request)
    try:
        hidden = try_hidden_problems(case)
        changed = try_inputs(case)
    except UserError:
        raise
    except LabError as error:
        reason = " ".join(str(error).split())
        return TrialOutcome((Fault(Ruling.NOT_JUDGED, "hidden problem", reason),))
    faults = [*hidden.faults, *changed.faults]
    for name in constant_outputs(changed):
        reason = (
            f"the task cannot tell {name} from a constant: no change of an input moves its reference by more than "
            "its tolerance"
        )
        faults.append(Fault(Ruling.NOT_JUDGED, "input dependence", reason, name))
    return replace(changed, faults=tuple(faults), sizes=hidden.sizes, not_shown=(*hidden.not_shown, *changed.not_shown))


def baseline_time(request: Request) -> PredictedTime | None:
    """Return the predicted time of the baseline of a request's task; its execution is cached on disk.

    Raises:
        UserError: The baseline cannot be read, or does not fit the task.
    """
    task = load_task(request.task, request.task_text)
    baseline = task.raw.baseline
    if baseline is None or baseline.source is None:
        return None
    source = task.file.parent / baseline.source
    at = task.document.at("baseline", "source")
    try:
        text = decoded_source(read_regular(source, task.raw.limits.source_bytes, "the baseline"))
    except UserError as error:
        raise error.placed(at, "baseline.source") from None
    try:
        case = case_of(replace(request, file=str(source), text=text, seed=0))
    except RejectedError as error:
        raise UserError(
            f"the baseline does not fit the task: {error.fault.reason}",
            code="mismatch",
            at=at,
            key="baseline.source",
            found=baseline.source,
            accepted="a kernel that compiles and takes the task's arguments",
        ) from None
    asked = replace(flow.emulation_task(case.context, case.variant), full_size=None, others=())
    outcome = execution(asked, case.variant.ptx, case.variant.model)
    return _time(flow.judge(case.variant, outcome).record)
