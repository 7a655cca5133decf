"""Records of a run in Kernel Tuner's format: one dictionary per setting, and one for the environment."""

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
"""Kind of the figure `time`, by the basis on which a run compares its variants."""


def results(
    run: RunRecord, records: tuple[VariantRecord, ...], names: Sequence[str], metrics: Metrics | None, folder: Path
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the results of `tune_kernel` without the best setting.

    Args:
        run: The run's facts.
        records: Its records.
        names: The tunable parameters.
        metrics: The user's figures: expressions or functions of parameters and `time`.
        folder: The run directory.

    Raises:
        UserError: A metric is invalid.
    """
    response = response_of(records)
    finished, failed = [], []
    for record in records:
        setting = {name: record.parameters[name] for name in names}
        time = time_ms(record, response)
        if record.status.failed:
            failed.append({**setting, "status": str(record.status), "reason": record.reason})
        elif record.status is not Status.PRUNED and time is not None:
            finished.append(_with_metrics({**setting, **_times(record, time)}, metrics))
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
    return finished, environment


def _times(record: VariantRecord, time: float) -> dict[str, Any]:
    figures: dict[str, Any] = {"time": time}
    if record.measurement:
        figures["times"] = list(record.measurement.samples.ms)
    if record.build:
        figures["compile_time"] = record.build.seconds * 1e3
    return {**figures, "variant": record.variant, "verified": record.status.sound, "status": str(record.status)}


def _with_metrics(result: dict[str, Any], metrics: Metrics | None) -> dict[str, Any]:
    """Add the user's figures; each may use the preceding ones."""
    for name, metric in (metrics or {}).items():
        key = f"metrics.{name}"
        if isinstance(metric, str):
            bindings = {name: value for name, value in result.items() if isinstance(value, bool | int | float | str)}
            result[name] = evaluate(metric, bindings, at=Location("metrics"), key=key)
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


def best(finished: Sequence[dict[str, Any]], objective: str, *, higher_is_better: bool) -> dict[str, Any] | None:
    """Return the best result by the objective; None without results.

    Raises:
        UserError: The results lack the objective.
    """
    if not finished:
        return None
    if not isinstance(finished[0].get(objective), int | float):
        figures = [name for name, value in finished[0].items() if isinstance(value, int | float)]
        raise UserError(
            "the results have no such figure", code="unknown-name", key="objective", found=objective, accepted=figures
        )
    return (max if higher_is_better else min)(finished, key=lambda result: result[objective])
