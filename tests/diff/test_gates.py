from __future__ import annotations

from dataclasses import replace

import pytest
from diff_support import comparison

from lab.base.errors import UserError
from lab.diff.comparison import SideVerdict
from lab.diff.figures import PredictedChange
from lab.diff.gates import check_gates, read_gate

RESULT = comparison()
CHANGED = next(change for change in RESULT.changes if change.name == "scale")


def with_figures(predicted: PredictedChange | None = None, **figures):
    assert CHANGED.base is not None
    head = replace(CHANGED.base, **figures)
    return replace(RESULT, changes=(replace(CHANGED, head=head, predicted=predicted),))


def failed(text: str, result=RESULT) -> list[str]:
    return [f"{failure.kernel} {failure.message}".strip() for failure in check_gates(result, [read_gate(text)])]


@pytest.mark.parametrize(
    ("gate", "figures", "fails"),
    [
        ("registers>+8", {"registers": CHANGED.base.registers + 9}, True),
        ("registers>+8", {"registers": CHANGED.base.registers + 8}, False),
        ("registers>+10%", {"registers": 2 * CHANGED.base.registers}, True),
        ("registers > 300", {}, False),
        ("spills>0", {"spill_bytes": 8}, True),
        ("spills>0", {"spill_bytes": 0}, False),
        ("occupancy<-10", {"occupancy": 0.5}, True),
        ("local>+0", {"slow": {"local memory": 1}}, True),
        ("spills>+0%", {"spill_bytes": 8}, True),
    ],
)
def test_figures(gate, figures, fails):
    assert bool(failed(gate, with_figures(**figures))) is fails


def test_an_unknown_figure_fails():
    assert failed("spills>0", with_figures(spill_bytes=None)) == ["scale spills unknown"]


def test_predicted_time():
    slower = with_figures(PredictedChange(1.05, 1.01, 1.1, 1.0))
    assert failed("predicted>+3%", slower) == ["scale +5.0 % predicted"]
    assert failed("predicted>+6%", slower) == []


def test_words():
    assert failed("class>renamed") == ["scale is changed"]
    assert failed("removed") == ["old is not in HEAD"]
    assert failed("added") == ["fresh is not in BASE"]
    assert failed("missing") == ["sm_80 is missing in HEAD"]
    wrong = SideVerdict("HEAD", "scale", "wrong", passed=False, reason="3 elements differ")
    assert failed("verdict", replace(RESULT, verdicts=(wrong,))) == ["scale HEAD: wrong: 3 elements differ"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("regsters>8", "wrong-value"),
        ("registers", "wrong-value"),
        ("registers>many", "wrong-type"),
        ("predicted>3", "wrong-value"),
        ("class>other", "unknown-name"),
        ("removed>3", "wrong-value"),
        ("", "wrong-value"),
    ],
)
def test_malformed(text, code):
    with pytest.raises(UserError) as caught:
        read_gate(text)
    assert (caught.value.code, caught.value.key) == (code, "--fail-on")
