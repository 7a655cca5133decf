"""Runs whose charts are known."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

import pytest

from lab.measured.timing import Samples
from lab.recorded.predictions import Estimate
from lab.recorded.run_records import RunRecord, VariantRecord
from lab.report.analysis import Analysis, analyse
from lab.report.charts import vega
from lab.store.database import Store

SIZES = (256, 512, 1024)
TIMES = ((1.0, 2.0), (1.0, 0.5), (3.0, 0.5))
"""Milliseconds of the kernels `a` and `b` at each size."""


@pytest.fixture(autouse=True)
def _drawn_and_checked(painted: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests look at how pictures and charts are drawn; Altair holds each part against its schema here."""
    monkeypatch.setattr(vega, "debug_mode", nullcontext)


@pytest.fixture
def analysed(make: Callable[[str], Store]) -> Callable[[str], Analysis]:
    """The analysis of one of the written runs."""

    def analysis(what: str) -> Analysis:
        with make(what) as store:
            return analyse(store.run(), store.records(), {})

    return analysis


@pytest.fixture
def estimated(make: Callable[[str], Store]) -> Analysis:
    """The analysis of the sweep, with an estimate of every variant."""
    with make("sweep") as store:
        records = tuple(
            replace(record, estimate=Estimate(1.1 * (record.throughput or 0.0), 100.0, {"fma": 1.0}))
            for record in store.records()
        )
        return analyse(store.run(), records, {})


@pytest.fixture
def along_n(make: Callable[[str], Store]) -> tuple[RunRecord, tuple[VariantRecord, ...]]:
    """Two kernels at three sizes and two element types beside two baselines; `b` overtakes `a` at the second size."""
    with make("ladder") as store:
        run, first = store.run(), store.records()[0]
    along_axis = []
    for dtype in ("float32", "it's $x^2$"):
        for n, times in zip(SIZES, TIMES, strict=True):
            for kernel, ms in zip("ab", times, strict=True):
                assert first.measurement is not None
                measurement = replace(
                    first.measurement,
                    samples=Samples((ms,)),
                    baseline=Samples((0.4,)),
                    others={"torch": Samples((2.0,))},
                )
                record = replace(
                    first,
                    variant=f"{kernel}{n}{dtype[:2]}",
                    kernel=kernel,
                    problem={**first.problem, "n": n, "dtype": dtype},
                    measurement=measurement,
                )
                along_axis.append(record)
    return replace(run, problem_axes=("n", "dtype")), tuple(along_axis)
