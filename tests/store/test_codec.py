from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from written_runs import Make

from lab.emulator.results import Finding
from lab.measured.metrics import DeclaredFigure, DeclaredRate
from lab.measured.timing import Samples
from lab.recorded.run_records import (
    Condition,
    EmulationRecord,
    FullSizeRecord,
    RunRecord,
    Status,
    Suspicion,
    VariantRecord,
)
from lab.store.codec import RUN, VARIANT, record_to_text

COMMITTED = sorted(Path(__file__).parents[2].glob("reports/h200/**/provenance.json"))

RUN_RECORD = RunRecord(
    experiment="e",
    question="q",
    operator="gemm",
    problem={"m": 4, "alpha": 1.0, "dtype": "float32"},
    source="",
    command="",
    started="",
    lab_version="0",
    commit="",
    python="",
    packages={"numpy": "2"},
    gpu=None,
    not_measured="",
    baselines={"k=1": "cublas (x)", "k=2": "copy"},
    swept=("unroll",),
    variants=1,
    problem_axes=("k",),
)


def test_a_run_comes_back_as_it_was() -> None:
    assert RUN.validate_json(record_to_text(RUN_RECORD)) == RUN_RECORD


def test_every_committed_run_is_read() -> None:
    runs = [text for text in (file.read_text() for file in COMMITTED) if "experiment" in json.loads(text)]
    assert runs
    for text in runs:
        run = RUN.validate_json(text)
        for label in run.baselines if len(run.baselines) > 1 else ():
            fields = [part.partition("=")[0] for part in label.split(" ") if "=" in part]
            if "name" in run.problem_axes:  # it stands alone, and problems of other names may have other fields
                assert fields == [axis for axis in run.problem_axes if axis in fields]
            else:
                assert fields == list(run.problem_axes) == [part.partition("=")[0] for part in label.split(" ")]


def test_a_wrong_type_is_refused() -> None:
    with pytest.raises(ValidationError):
        RUN.validate_json("[]")
    with pytest.raises(ValidationError):
        RUN.validate_json(record_to_text(RUN_RECORD).replace('"variants":1', '"variants":"many"'))


def test_infinity_is_told_from_nothing() -> None:
    record = VariantRecord(
        "v", "k", "", "t", {}, {}, "sm_90", Status.VERIFIED, "", 1, 1, accesses={"global.load": float("inf")}
    )
    text = record_to_text(record)
    assert json.loads(text)["accesses"] == {"global.load": "Infinity"}
    assert VARIANT.validate_json(text) == record


def test_declared_metrics_come_back(make):
    further = (DeclaredFigure("ms", "1000 * time * k", {"k": 2}), DeclaredFigure("x", "a / time", {"a": 0.5}, 1e9))
    plain = make("sweep").records()[0]
    one = replace(plain, declared_rate=DeclaredRate("updates/ns", 0.25), declared_figures=further)
    assert VARIANT.validate_json(record_to_text(one)) == one
    assert (plain.unit, plain.declared_rate, plain.declared_figures) == ("TFLOP/s", None, ())


def test_names_of_files_that_are_no_text_are_spelled_everywhere_in_a_record(make) -> None:
    odd, plain = "a\udcff", make("sweep").records()[0]
    record = replace(plain, reason=odd, options=(odd, "b"), problem={odd: odd, "m": 4}, round=3)
    back = VARIANT.validate_json(record_to_text(record))
    spelled = "a\N{REPLACEMENT CHARACTER}"
    assert (back.reason, back.options, back.problem) == (spelled, (spelled, "b"), {spelled: spelled, "m": 4})
    assert replace(back, reason=plain.reason, options=plain.options, problem=plain.problem, round=plain.round) == plain
    run = replace(RUN_RECORD, command=odd, notes=(odd,))
    assert RUN.validate_json(record_to_text(run)) == replace(RUN_RECORD, command=spelled, notes=(spelled,))


def test_suspicions_and_gaps_survive() -> None:
    fault = Finding("shared-race", 4, "st.shared", None, (0, 0, 0), (1, 0, 0), 8, "why")
    emulation = EmulationRecord(
        {"n": 4},
        (),
        suspicions=(Suspicion(Condition.FULL_SIZE, "", fault), Suspicion(Condition.ORDER, "it differs")),
        not_shown=("values at the full size",),
        full_size=FullSizeRecord({"n": 1000}, 23, 7813, 2944, covered=True),
    )
    record = VariantRecord("v", "k", "", "t", {}, {}, "sm_90", Status.SUSPECT, "", 1, 1, emulation=emulation)
    assert VARIANT.validate_json(record_to_text(record)) == record


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"variant": "../x"}, "not a name of a folder"),
        ({"flops": -1}, "flops and bytes_moved must not be negative, found -1"),
        ({"bytes_moved": -1}, "flops and bytes_moved must not be negative"),
        ({"ms": ()}, "samples of a time must be some, finite, and not negative"),
        ({"ms": (1.0, -1.0)}, "samples of a time must be some"),
        ({"ms": (math.nan,)}, "samples of a time must be some"),
        ({"ms": (math.inf, 1.0)}, "samples of a time must be some"),
        ({"ms": (1.0, 1.0), "unused": (0, 1)}, "samples of a time must be some"),
    ],
)
def test_quantities_that_there_cannot_be_are_refused(make: Make, changes: dict[str, Any], reason: str) -> None:
    with make("ladder") as store:
        record = store.records()[0]
    assert record.measurement is not None
    if "ms" in changes:
        record = replace(record, measurement=replace(record.measurement, samples=Samples(**changes)))
    else:
        record = replace(record, **changes)
    with pytest.raises(ValidationError, match=reason):
        VARIANT.validate_json(record_to_text(record))
