"""Records of a run as Kernel Tuner returns them: a dictionary for each setting, and one of the environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from lab.base.errors import Location, UserError
from lab.base.expressions import evaluate
from lab.base.version import VERSION
from lab.recorded.run_records import RunRecord, Status, VariantRecord
from lab.store.figures import Basis, response_of, time_ms

Metrics = Mapping[str, str | Callable[[dict[str, Any]], Any]]

TIME_KINDS: Final = {
    Basis.MEASURED: "measured",
    Basis.ESTIMATE: "predicted",
    Basis.SCORE: "predicted",
    Basis.CEILING: "lower bound",
}
"""What `time` is, by what the variants of a run are compared by."""


def results(
    run: RunRecord, records: tuple[VariantRecord, ...], names: Sequence[str], metrics: Metrics | None, folder: Path
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return what `tune_kernel` returns, the objective's best setting left out.

    Args:
        run: The run's facts.
        records: Its records.
        names: The tunable parameters.
        metrics: Figures of the user's own, expressions or functions over parameters and `time`.
        folder: The run directory.

    Raises:
        UserError: A metric is wrong.
    """
    response = response_of(records)
    done, failed = [], []
    for record in records:
        setting = {name: record.parameters[name] for name in names}
        time = time_ms(record, response)
        if record.status.failed:
            failed.append({**setting, "status": str(record.status), "reason": record.reason})
        elif record.status is not Status.PRUNED and time is not None:
            done.append(_with_metrics({**setting, **_times(record, time)}, metrics))
    gpu = run.gpu
    environment: dict[str, Any] = {
        "device_name": gpu.name if gpu else None,
        "lab_version": VERSION,
        "compiler": sorted({record.compiler for record in records if record.compiler}),
        "arch": sorted({record.arch for record in records}),
        "time": TIME_KINDS[response.basis],
        "notes": [*([run.not_measured] if run.not_measured else []), *run.notes],
        "failed": failed,
        "folder": str(folder),
        "page": str(folder / "index.html"),
    }
    return done, environment


def _times(record: VariantRecord, time: float) -> dict[str, Any]:
    found: dict[str, Any] = {"time": time}
    if record.measurement:
        found["times"] = list(record.measurement.samples.ms)
    if record.build:
        found["compile_time"] = record.build.seconds * 1e3
    return {**found, "variant": record.variant, "verified": record.status.sound, "status": str(record.status)}


def _with_metrics(result: dict[str, Any], metrics: Metrics | None) -> dict[str, Any]:
    """Add the user's figures, each of which may use those before it."""
    for name, metric in (metrics or {}).items():
        key = f"metrics.{name}"
        if isinstance(metric, str):
            known = {one: value for one, value in result.items() if isinstance(value, bool | int | float | str)}
            result[name] = evaluate(metric, known, at=Location("metrics"), key=key)
            continue
        if not callable(metric):
            accepted = "an expression over the parameters and time, as text, or a function"
            raise UserError("wrong type", code="wrong-type", key=key, found=metric, accepted=accepted)
        try:
            result[name] = metric(result)
        except Exception as error:  # the caller's code may raise anything
            message = f"the function raised {type(error).__name__}: {error}"
            raise UserError(message, code="user-code", key=key) from error
    return result


def best(done: Sequence[dict[str, Any]], objective: str, *, higher_is_better: bool) -> dict[str, Any] | None:
    """Return the result that the objective prefers; None without results.

    Raises:
        UserError: The results do not have it.
    """
    if not done:
        return None
    if not isinstance(done[0].get(objective), int | float):
        figures = [name for name, value in done[0].items() if isinstance(value, int | float)]
        raise UserError(
            "the results have no such figure", code="unknown-name", key="objective", found=objective, accepted=figures
        )
    return (max if higher_is_better else min)(done, key=lambda one: one[objective])
