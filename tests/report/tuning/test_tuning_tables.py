from __future__ import annotations

import csv
import io
from dataclasses import fields, replace
from pathlib import Path

import pytest
from planted_tuning import GPU, LABEL, invented, plant

from lab.report.tuning.data import analyse
from lab.report.tuning.tuning_tables import KernelLine, WinnerLine, kernel_lines, to_csv, winner_lines
from lab.store.tuning import TuningStore
from lab.store.tuning_model import KernelFacts


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_winners_have_full_precision_and_nothing_for_what_was_not_timed(tmp_path: Path) -> None:
    with TuningStore(plant(tmp_path, None)) as store:
        lines = winner_lines(analyse(store))
    rows = read(to_csv(WinnerLine, lines))
    assert len(rows) == 16
    first = rows[0]
    assert list(first) == [field.name for field in fields(WinnerLine)]
    assert float(first["ms"]) == invented("small", 16, 16)
    assert (first["type"], first["m"], first["n"], first["k"], first["kernel"]) == (LABEL, "16", "16", "512", "small")
    assert (first["kind"], first["samples"], first["cublas_ms"]) == ("predicted", "3", "")


def test_kernels_have_their_wins_and_efficiencies(tmp_path: Path) -> None:
    with TuningStore(plant(tmp_path, GPU)) as store:
        lines = kernel_lines(analyse(store), store.kernels())
    rows = {row["name"]: row for row in read(to_csv(KernelLine, lines))}
    assert {name: row["wins"] for name, row in rows.items()} == {"small": "4", "large": "12", "one": "0"}
    assert float(rows["large"]["efficiency_none_hidden"]) == pytest.approx(512 / 564)
    assert rows["large"]["parameters"] == "a=1"
    assert rows["large"]["wins_by_times"] == "measured"


def test_a_kernel_that_was_not_built_has_no_main_loop(tmp_path: Path) -> None:
    failed = KernelFacts("id-bad", "bad, really", "g", LABEL, "t", {}, "sm_90", failure="it broke")
    with TuningStore(plant(tmp_path, GPU)) as store:
        (line,) = kernel_lines(analyse(store), [failed])
    (row,) = read(to_csv(KernelLine, [line]))
    assert (row["name"], row["failure"], row["fma"], row["wins"]) == ("bad, really", "it broke", "", "0")
    assert row["efficiency_all_hidden"] == ""


def test_without_rows_the_columns_are_there(tmp_path: Path) -> None:
    assert to_csv(WinnerLine, []).count("\n") == 1
    with TuningStore(plant(tmp_path, GPU)) as store:
        line = winner_lines(analyse(store))[0]
    text = to_csv(WinnerLine, [replace(line, max_error=0.0)])
    assert read(text)[0]["max_error"] == "0.0"
