"""The verdict on a candidate, as JSON with a versioned schema.

The schema stands in docs/reference/judge.md; `SCHEMA` changes with every change that a reader could notice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from pydantic import Field

from lab.base.validation import Strict
from lab.judging.faults import (
    AdvicePoint,
    Dependence,
    Examination,
    Fault,
    PredictedTime,
    Ruling,
    TrialOutcome,
    decide,
    ranked,
)
from lab.judging.task import Task

SCHEMA: Final = 1
"""Version of the schema."""

BRIEF_BYTES: Final = 2048
"""Most bytes of a verdict without `--full`."""

_BRIEF_TEXT: Final = (240, 160, 100, 60)
_BRIEF_LISTS: Final = (3, 2, 1, 1)
"""Characters of a text and entries of a list, tried in this order until the verdict is short enough."""


class EvidenceModel(Strict):
    """One reason for the verdict."""

    check: str = Field(description="The check that failed: 'hidden problem'")
    ruling: Ruling = Field(description="The word that it decides for")
    reason: str = Field(description="One line")
    argument: str | None = Field(None, description="The output at fault")
    element: list[int] | None = Field(None, description="Its index in each dimension")
    got: str | None = Field(None, description="The value there")
    expected: str | None = Field(None, description="The expected value")
    problem: dict[str, bool | int | float | str] | None = Field(None, description="Fields that the judge drew")
    seed: int | None = Field(None, description="Seed of the inputs")
    line: str | None = Field(None, description="Source line: candidate.cu:12")


class TimeModel(Strict):
    """A predicted time, beside that of the baseline."""

    gpu: str
    predicted_us: float = Field(description="Predicted time at the problem's own size, in microseconds")
    range_us: tuple[float, float] = Field(description="The least and the most that the model considers possible")
    limit: str = Field(description="The resource that takes the most of it")
    baseline_us: float | None = Field(
        None, description="Time of the task's baseline, predicted unless the task gives it"
    )
    speedup: float | None = Field(None, description="Baseline over candidate")
    speedup_range: tuple[float, float] | None = Field(None, description="The same, from the ranges of both")


class AdviceModel(Strict):
    """One finding on performance."""

    rule: str
    line: str | None = None
    cause: str
    remedy: str
    gain: float | None = Field(None, description="Predicted time now over the time without it")


class VerdictModel(Strict):
    """A verdict; keys that say nothing are left out."""

    schema_version: Literal[1] = Field(alias="schema")
    verdict: Ruling
    reason: str = Field(description="The first reason, one line; of a correct candidate what was shown")
    task: str
    task_hash: str = Field(description="Twelve hex digits of the SHA-256 of the task file")
    candidate_hash: str = Field(description="The same of the candidate's source")
    seed: int = Field(description="Seed of everything that was drawn; the same seed repeats the verdict")
    evidence: list[EvidenceModel] = Field(default_factory=list)
    depends_on: dict[str, dict[str, float]] = Field(
        default_factory=dict, description="For each output the inputs it was shown to depend on, with the share of it"
    )
    hidden: list[dict[str, bool | int | float | str]] = Field(default_factory=list, description="Problems drawn")
    full_size: dict[str, int] = Field(default_factory=dict, description="Sampled blocks at the problem's own size")
    deterministic: bool | None = Field(None, description="Every order of blocks and warps gives the same bits")
    not_shown: list[str] = Field(default_factory=list, description="Known gaps, a sentence each")
    resources: dict[str, float] = Field(default_factory=dict)
    time: TimeModel | None = None
    measured: dict[str, Any] | None = Field(None, description="Times on a card; absent where there is none")
    advice: list[AdviceModel] = Field(default_factory=list, description="The largest gain first")
    omitted: int | None = Field(None, description="Entries that --full would show")


def verdict_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a verdict."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **VerdictModel.model_json_schema(by_alias=True)}


@dataclass(frozen=True)
class Judgement:
    """The verdict on a candidate.

    Attributes:
        task: The task.
        candidate_hash: Twelve hex digits of a hash of its text.
        seed: Seed of everything that was drawn.
        faults: What counts against it, the most severe first.
        examination: The pipeline's outcome.
        trials: The outcome of hidden problems and changed inputs.
        baseline: Time of the baseline; None without one.
        measured: Measured times; None without a card.
    """

    task: Task
    candidate_hash: str
    seed: int
    faults: tuple[Fault, ...] = ()
    examination: Examination = field(default_factory=Examination)
    trials: TrialOutcome = field(default_factory=TrialOutcome)
    baseline: PredictedTime | None = None
    measured: Mapping[str, Any] | None = None

    @property
    def ruling(self) -> Ruling:
        """The word."""
        return decide(self.faults)

    @property
    def exit_code(self) -> int:
        """Exit code of `lab judge`."""
        return self.ruling.exit_code

    @property
    def reason(self) -> str:
        """The first reason, one line."""
        faults = ranked(self.faults)
        if faults:
            return f"{faults[0].check}: {faults[0].reason}"
        gaps = len(self._not_shown)
        return "no fault was found" + (f"; {gaps} gap{'s' if gaps > 1 else ''} in what was shown" if gaps else "")

    @property
    def _not_shown(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.examination.not_shown, *self.trials.not_shown)))

    def as_dict(self) -> dict[str, Any]:
        """Return everything, in the order of the schema."""
        full: dict[str, Any] = {
            "schema": SCHEMA,
            "verdict": str(self.ruling),
            "reason": self.reason,
            "task": self.task.name,
            "task_hash": self.task.fingerprint,
            "candidate_hash": self.candidate_hash,
            "seed": self.seed,
            "evidence": [_evidence(fault) for fault in ranked(self.faults)],
            "depends_on": _dependences(self.trials.dependences),
            "hidden": [dict(sizes) for sizes in self.trials.sizes if sizes],
            "full_size": dict(self.examination.coverage),
            "deterministic": self.trials.deterministic,
            "not_shown": list(self._not_shown),
            "resources": dict(self.examination.resources),
            "time": _time(self.examination.time, self.baseline),
            "measured": dict(self.measured) if self.measured is not None else None,
            "advice": [_advice(point) for point in self.examination.advice],
        }
        return {key: value for key, value in full.items() if value not in (None, [], {})}

    def as_json(self, *, full: bool = False) -> str:
        """Return the verdict as JSON on one line: everything, or what fits into `BRIEF_BYTES`."""
        whole = self.as_dict()
        if full:
            return _text(whole)
        for characters, entries in zip(_BRIEF_TEXT, _BRIEF_LISTS, strict=True):
            brief = _abridged(whole, characters, entries)
            if len(_text(brief).encode()) <= BRIEF_BYTES:
                return _text(brief)
        kept = ("schema", "verdict", "reason", "task", "task_hash", "candidate_hash", "seed")
        least = {key: _cut(whole[key], _BRIEF_TEXT[-1]) for key in kept}
        return _text({**least, "omitted": len(whole) - len(kept)})


def _text(data: Mapping[str, Any]) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(", ", ": "), allow_nan=False)


def _evidence(fault: Fault) -> dict[str, Any]:
    entry = {
        "check": fault.check,
        "ruling": str(fault.ruling),
        "reason": fault.reason,
        "argument": fault.argument or None,
        "element": list(fault.element) or None,
        "got": fault.got or None,
        "expected": fault.expected or None,
        "problem": dict(fault.problem) or None,
        "seed": fault.seed,
        "line": fault.line or None,
    }
    return {key: value for key, value in entry.items() if value is not None}


def _dependences(dependences: Sequence[Dependence]) -> dict[str, dict[str, float]]:
    return {
        dependence.argument: {name: round(share, 3) for name, share in dependence.on.items()}
        for dependence in dependences
        if dependence.on
    }


def _time(time: PredictedTime | None, baseline: PredictedTime | None) -> dict[str, Any] | None:
    if time is None:
        return None
    entry: dict[str, Any] = {
        "gpu": time.gpu,
        "predicted_us": time.likely_us,
        "range_us": [time.least_us, time.most_us],
        "limit": time.limit,
    }
    if baseline is not None and min(time.likely_us, time.least_us, time.most_us) > 0:
        entry |= {
            "baseline_us": baseline.likely_us,
            "speedup": round(baseline.likely_us / time.likely_us, 3),
            "speedup_range": [
                round(baseline.least_us / time.most_us, 3),
                round(baseline.most_us / time.least_us, 3),
            ],
        }
    return entry


def _advice(point: AdvicePoint) -> dict[str, Any]:
    entry = {
        "rule": point.rule,
        "line": point.line or None,
        "cause": point.cause,
        "remedy": point.remedy,
        "gain": point.gain,
    }
    return {key: value for key, value in entry.items() if value is not None}


def _abridged(whole: Mapping[str, Any], characters: int, entries: int) -> dict[str, Any]:
    """Return a verdict with shorter texts and lists, and how many entries were left out."""
    omitted = 0
    brief: dict[str, Any] = {}
    for key, value in whole.items():
        if isinstance(value, list):
            omitted += max(0, len(value) - entries)
            value = value[:entries]  # noqa: PLW2901 - the loop's own value
        brief[key] = _cut(value, characters)
    return {**brief, "omitted": omitted} if omitted else brief


def _cut(value: Any, characters: int) -> Any:  # noqa: ANN401 - any value of JSON
    if isinstance(value, str):
        return value if len(value) <= characters else f"{value[: characters - 1]}…"
    if isinstance(value, list):
        return [_cut(member, characters) for member in value]
    if isinstance(value, dict):
        return {key: _cut(member, characters) for key, member in value.items()}
    return value
