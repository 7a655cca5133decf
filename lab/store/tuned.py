"""Kernel Tuner's cache files and T4 results: reading and writing.

A cache file is what `tune_kernel(cache=...)` of Kernel Tuner leaves: a head and an entry for each setting. It may be
open, without its last brackets, as an interrupted session leaves it. T4 is the results format of auto-tuners
(schema 1.0.0): a list of configurations with their times. Both name a failed setting in place of its time.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from lab.base.errors import Location, UserError
from lab.base.expressions import Scalar
from lab.base.files import read_regular, write_atomically
from lab.recorded.run_records import RunRecord, Status, VariantRecord

MOST_BYTES: Final = 500_000_000
"""The largest file size in bytes: the largest published caches have some 100 MB."""

T4_VERSION: Final = "1.0.0"

_FAILURES: Final = {
    Status.COMPILE_FAILED: ("CompilationFailedConfig", "compile"),
    Status.WRONG: ("RuntimeFailedConfig", "correctness"),
    Status.SUSPECT: ("RuntimeFailedConfig", "correctness"),
}
_UNKNOWN_FAILURE: Final = ("RuntimeFailedConfig", "runtime")
_ERRORS: Final = ("ErrorConfig", "InvalidConfig", "CompilationFailedConfig", "RuntimeFailedConfig")
_INVALID: Final = ("timeout", "compile", "runtime", "correctness", "constraints", "correct")


@dataclass(frozen=True, slots=True)
class TunedSetting:
    """One measured setting from a file.

    Attributes:
        setting: Every tunable parameter with its value.
        ms: Its time in ms; None where it failed.
        times: The samples in ms; may be empty.
        failure: Why it has no time, in Kernel Tuner's words; empty where it has one.
        compile_ms: Time that compiling took; None where nobody noted it.
        timestamp: When it was measured, as the file says; may be empty.
    """

    setting: Mapping[str, Scalar]
    ms: float | None
    times: tuple[float, ...] = ()
    failure: str = ""
    compile_ms: float | None = None
    timestamp: str = ""


@dataclass(frozen=True, slots=True)
class TunedSpace:
    """The content of a file.

    Attributes:
        device: The GPU; empty where the file does not say.
        kernel: The kernel's name; likewise.
        problem_size: Likewise, as the file has it; None without.
        values: Each tunable parameter with its values, in the file's order.
        settings: The settings, in the file's order.
    """

    device: str
    kernel: str
    problem_size: object
    values: Mapping[str, tuple[Scalar, ...]]
    settings: tuple[TunedSetting, ...] = field(default_factory=tuple)


def read_tuned(file: Path) -> TunedSpace:
    """Read a cache file or T4 results, detecting the format.

    Raises:
        UserError: The file cannot be read, or holds neither.
    """
    try:
        text = read_regular(file, MOST_BYTES).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError("not UTF-8 text", code="syntax", at=Location(file), found=f"byte {error.start}") from error
    data = _parsed(text, file)
    if isinstance(data, dict) and isinstance(data.get("cache"), dict):
        return _of_cache(data, file)
    if isinstance(data, dict) and isinstance(data.get("results"), list):
        return _of_t4(data, file)
    accepted = "a cache file of Kernel Tuner, which has the key cache, or T4 results, which have the key results"
    keys = sorted(data)[:8] if isinstance(data, dict) else type(data).__name__
    raise UserError(
        "neither a cache file nor T4 results", code="syntax", at=Location(file), found=keys, accepted=accepted
    )


def _parsed(text: str, file: Path) -> Any:  # noqa: ANN401 - whatever JSON holds
    stripped = text.strip()
    # Kernel Tuner appends entries and closes the two brackets only at the end of a session
    tries = (stripped, stripped.rstrip(",") + "}}")
    for candidate in tries:
        try:
            return json.loads(candidate, parse_constant=_constant)
        except (ValueError, RecursionError) as error:
            last = error
    line = getattr(last, "lineno", None)
    raise UserError(f"not JSON: {getattr(last, 'msg', last)}", code="syntax", at=Location(file, line)) from last


def _constant(name: str) -> float:
    return math.nan if name == "NaN" else math.inf


def _of_cache(data: dict[str, Any], file: Path) -> TunedSpace:
    names = data.get("tune_params_keys")
    if names is None:
        names = list(data["tune_params"]) if isinstance(data.get("tune_params"), dict) else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or not names:
        raise _wrong(file, "tune_params_keys", names, "a list of names")
    settings = []
    for key, entry in data["cache"].items():
        if not isinstance(entry, dict):
            raise _wrong(file, f"cache.{key}", entry, "a mapping")
        setting = {name: _scalar(entry.get(name), file, f"cache.{key}.{name}") for name in names}
        ms, failure = _time(entry.get("time"), entry.get("__error__"))
        settings.append(
            TunedSetting(
                setting,
                ms,
                _numbers(entry.get("times")),
                failure,
                _number(entry.get("compile_time")),
                _text(entry.get("timestamp")),
            )
        )
    listed = data.get("tune_params")
    values = _values(names, settings, listed if isinstance(listed, dict) else {}, file)
    head = _text(data.get("device_name")), _text(data.get("kernel_name"))
    return TunedSpace(*head, data.get("problem_size"), values, tuple(settings))


def _of_t4(data: dict[str, Any], file: Path) -> TunedSpace:
    settings: list[TunedSetting] = []
    names: list[str] = []
    for i, result in enumerate(data["results"]):
        if not isinstance(result, dict) or not isinstance(result.get("configuration"), dict):
            raise _wrong(file, f"results[{i}].configuration", result, "a mapping")
        configuration = result["configuration"]
        names = names or list(configuration)
        if sorted(names) != sorted(configuration):
            raise _wrong(
                file, f"results[{i}].configuration", sorted(configuration), f"the parameters {', '.join(names)}"
            )
        setting = {name: _scalar(configuration[name], file, f"results[{i}].configuration.{name}") for name in names}
        invalid = result.get("invalidity", "correct")
        if invalid not in _INVALID:
            raise _wrong(file, f"results[{i}].invalidity", invalid, ", ".join(_INVALID))
        times = result.get("times") if isinstance(result.get("times"), dict) else {}
        assert isinstance(times, dict)  # noqa: S101 - the line above
        samples = _numbers(times.get("runtimes"))
        ms = _measured(result) if invalid == "correct" else None
        if ms is None and invalid == "correct" and samples:
            ms = sum(samples) / len(samples)
        compile_ms = _number(times.get("compilation", times.get("compilation_time")))
        failure = "" if ms is not None else "no time" if invalid == "correct" else str(invalid)
        settings.append(TunedSetting(setting, ms, samples, failure, compile_ms, _text(result.get("timestamp"))))
    return TunedSpace("", "", None, _values(names, settings, {}, file), tuple(settings))


def _measured(result: Mapping[str, Any]) -> float | None:
    """Return the measurement of the objective, in ms."""
    measurements = result.get("measurements")
    objectives = result.get("objectives")
    objective = objectives[0] if isinstance(objectives, list) and objectives else "time"
    for measurement in measurements if isinstance(measurements, list) else []:
        if isinstance(measurement, dict) and measurement.get("name") == objective:
            ms, _ = _time(measurement.get("value"), None)
            scale = {"s": 1e3, "seconds": 1e3, "us": 1e-3, "ns": 1e-6}.get(str(measurement.get("unit")), 1.0)
            return None if ms is None else ms * scale
    return None


def _time(value: object, error: object) -> tuple[float | None, str]:
    """Return a time in ms, or the reason for its absence."""
    number = _number(value)
    if error is None and number is not None and number > 0:
        return number, ""
    error_name = error if isinstance(error, str) else value if isinstance(value, str) else ""
    return None, error_name if error_name in _ERRORS else "no time"


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _numbers(value: object) -> tuple[float, ...]:
    listed = [_number(element) for element in value] if isinstance(value, list) else []
    return tuple(number for number in listed if number is not None)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _scalar(value: object, file: Path, key: str) -> Scalar:
    if isinstance(value, float) and not math.isfinite(value):
        raise _wrong(file, key, value, "a finite number")
    if isinstance(value, bool | int | float | str):
        return value
    raise _wrong(file, key, value, "a number, a text, or true or false")


def _values(
    names: Sequence[str], settings: Sequence[TunedSetting], listed: Mapping[str, Any], file: Path
) -> dict[str, tuple[Scalar, ...]]:
    """Return the values of each parameter: those the file lists, then those only settings have."""
    by_parameter: dict[str, tuple[Scalar, ...]] = {}
    for name in names:
        file_values = listed.get(name)
        values = (
            [_scalar(value, file, f"tune_params.{name}") for value in file_values]
            if isinstance(file_values, list)
            else []
        )
        values += [setting.setting[name] for setting in settings]
        by_parameter[name] = tuple({repr(value): value for value in values}.values())
    return by_parameter


def _wrong(file: Path, key: str, value: object, accepted: str) -> UserError:
    return UserError(
        "not as Kernel Tuner writes it", code="syntax", at=Location(file), key=key, found=value, accepted=accepted
    )


def tuned_space(run: RunRecord, records: Sequence[VariantRecord]) -> TunedSpace:
    """Return the measured and failed variants of a run, without pruned and merely predicted ones.

    Raises:
        UserError: The run has several problems, kernels, architectures or sets of options, which the formats do not
            know.
    """
    selected = [record for record in records if record.measurement or record.status.failed]
    for aspect, several in (
        ("problem", {repr(sorted(record.problem.items())) for record in selected}),
        ("kernel", {record.kernel for record in selected}),
        ("arch", {record.arch for record in selected}),
        ("compiler", {record.compiler for record in selected}),
        ("options", {record.options for record in selected}),
    ):
        if len(several) > 1:
            raise UserError(
                f"the run has {len(several)} different values of {aspect}",
                code="conflict",
                key=aspect,
                accepted="one: a file of Kernel Tuner's holds the settings of one kernel for one problem",
            )
    names = [name for name in run.swept if all(name in record.parameters for record in selected)]
    settings = []
    for record in selected:
        samples = record.measurement.samples if record.measurement and not record.status.failed else None
        settings.append(
            TunedSetting(
                {name: record.parameters[name] for name in names},
                samples.median if samples else None,
                samples.used if samples else (),
                "" if samples else _FAILURES.get(record.status, _UNKNOWN_FAILURE)[0],
                record.build.seconds * 1e3 if record.build else None,
                run.started,
            )
        )
    values = {
        name: tuple({repr(setting.setting[name]): setting.setting[name] for setting in settings}.values())
        for name in names
    }
    size = [value for value in run.problem.values() if isinstance(value, int) and not isinstance(value, bool)]
    kernel = selected[0].kernel if selected else run.experiment
    return TunedSpace(run.gpu.name if run.gpu else "", kernel, size, values, tuple(settings))


def write_tuned(file: Path, run: RunRecord, records: Sequence[VariantRecord]) -> None:
    """Write a run as T4 results if the file's name ends in .t4.json, else as a cache file.

    Raises:
        UserError: The run does not fit into such a file, or the file cannot be written.
    """
    write = t4_text if file.name.endswith(".t4.json") else cache_text
    text = write(tuned_space(run, records))
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, text)
    except OSError as error:
        raise UserError(f"cannot be written: {error.strerror}", code="unwritable", at=Location(file)) from error


def cache_text(space: TunedSpace) -> str:
    """Return a space as the text of a cache file that Kernel Tuner 1.5 can continue or simulate."""
    entries = {}
    for setting in space.settings:
        took: dict[str, Any] = {"time": setting.ms, "times": list(setting.times)}
        if setting.ms is None:
            took = {"time": setting.failure if setting.failure in _ERRORS else _UNKNOWN_FAILURE[0]}
        spent = {
            "compile_time": setting.compile_ms or 0.0,
            "verification_time": 0.0,
            "benchmark_time": sum(setting.times),
        }
        spent |= {"strategy_time": 0.0, "framework_time": 0.0}
        key = ",".join(str(value) for value in setting.setting.values())
        entries[key] = {**setting.setting, **took, **spent, "timestamp": setting.timestamp}
    head = {
        "device_name": space.device,
        "kernel_name": space.kernel,
        "problem_size": space.problem_size,
        "tune_params_keys": list(space.values),
        "tune_params": {name: list(values) for name, values in space.values.items()},
        "objective": "time",
    }
    # one entry a line and both brackets alone at the end, which is how Kernel Tuner finds a closed file
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(entry)}" for key, entry in entries.items())
    return json.dumps(head, indent="")[:-2] + f',\n"cache": {{\n{lines}}}\n}}'


def t4_text(space: TunedSpace) -> str:
    """Return a space as the text of T4 results, schema 1.0.0."""
    by_error = {error: invalid for error, invalid in _FAILURES.values() if invalid != "timeout"}
    results = []
    for setting in space.settings:
        invalid = "correct" if setting.ms is not None else by_error.get(setting.failure, setting.failure)
        times = {"compilation": setting.compile_ms or 0.0, "benchmark": sum(setting.times), "framework": 0.0}
        times |= {"search_algorithm": 0.0, "validation": 0.0}
        results.append(
            {
                "timestamp": setting.timestamp,
                "configuration": dict(setting.setting),
                "times": {**times, "runtimes": list(setting.times)},
                "invalidity": invalid if invalid in _INVALID else "runtime",
                "correctness": 1 if setting.ms is not None else 0,
                "measurements": [{"name": "time", "value": setting.ms, "unit": "ms"}] if setting.ms is not None else [],
                "objectives": ["time"],
            }
        )
    head = {"results": results, "schema_version": T4_VERSION, "metadata": {"timeunit": "milliseconds"}}
    return json.dumps(head, indent=1) + "\n"
