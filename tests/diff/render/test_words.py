from __future__ import annotations

from dataclasses import replace

from diff_support import comparison

from lab.diff.figures import PredictedChange
from lab.diff.gates import GateFailure
from lab.diff.render.words import (
    figure_rows,
    grouped,
    headline,
    listing_lines,
    predicted_text,
    short_figures,
    title,
    unlike_kernels,
    warnings,
)

RESULT = comparison()
(CHANGED,) = unlike_kernels(RESULT)


def test_the_answer():
    assert headline(RESULT) == "2 kernels compared: 1 changed, 1 added, 1 removed"
    assert (
        headline(replace(RESULT, changes=RESULT.changes[1:], added=(), removed=()))
        == "1 kernel compared, all identical"
    )


def test_warnings_name_the_architecture_and_the_thresholds():
    failures = [GateFailure("spills>0", f"k{i}", "sm_90", "spills 0 -> 8") for i in range(6)]
    assert list(warnings(RESULT, failures)) == [
        "sm_80 is missing in HEAD: nothing of it was compared",
        "--fail-on 'spills>0': " + ", ".join(f"k{i} sm_90 spills 0 -> 8" for i in range(4)) + " and 2 more",
    ]


def test_figures():
    assert title(replace(CHANGED, base_name="old")) == "old -> scale"
    rows = {name: (before, after) for name, before, after in figure_rows(CHANGED)}
    assert rows["registers"] == (str(CHANGED.base.registers), str(CHANGED.head.registers))
    assert short_figures(CHANGED)[0] == f"{CHANGED.base.registers}->{CHANGED.head.registers}"


def test_predicted_text():
    change = replace(CHANGED, predicted=PredictedChange(1.052, 0.99, 1.1, 2.0))
    assert predicted_text(change, short=True) == "+5.2 %"
    assert predicted_text(change) == "hot loop +5.2 % predicted (-1.0 to +10.0 %, work of an iteration x 2.00)"


def test_one_group_for_several_architectures():
    assert [archs for _, archs in grouped([CHANGED, replace(CHANGED, arch="sm_100")])] == ["sm_90, sm_100"]


def test_listing():
    lines = list(listing_lines(CHANGED))
    assert {line[0] for line in lines} <= set("-+ ~@")
    assert any(line.startswith("+ ") for line in lines)
