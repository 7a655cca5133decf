"""The order of findings, and rules that cannot be checked."""

from __future__ import annotations

import numpy as np
import pytest
from advice_support import executed, module

from lab.advice import advise as advising
from lab.advice.advise import advise
from lab.advice.evidence import Evidence, Need
from lab.advice.finding import CodePlace, PerformanceFinding, Rule

CLEAN = module(
    """
    mov.u32 %r1, %tid.x;
    ld.param.u64 %rd1, [out];
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r1;
    """
)


def test_every_rule_is_checked_or_skipped_once():
    skipped = [one.rule for one in advise(Evidence()).skipped]
    assert sorted(skipped) == sorted(Rule)


def test_an_execution_leaves_out_what_needs_a_gpu_alone():
    out = np.zeros(32, np.uint32)
    said = advise(executed(CLEAN, [out, out]))
    assert said.findings == ()
    assert {one.rule: one.missing for one in said.skipped} == {
        Rule.LOCAL_MEMORY: Need.RESOURCES,
        Rule.OCCUPANCY: Need.WORK,
        Rule.TAIL_WAVE: Need.GPU,
        Rule.LATENCY: Need.WORK,
        Rule.CODE_SIZE: Need.SASS,
        Rule.BYTES_IN_FLIGHT: Need.WORK,
    }


@pytest.fixture
def ranked(monkeypatch):
    """Findings with some gains and wastes, as they are ranked."""

    def make(*pairs):
        made = [PerformanceFinding(Rule.TAIL_WAVE, CodePlace(), "", "", waste, gain) for gain, waste in pairs]
        monkeypatch.setattr(advising, "_RULES", (advising._Checked(lambda _: iter(made), (Rule.TAIL_WAVE,), ()),))
        return [(finding.gain, finding.waste) for finding in advise(Evidence()).findings]

    return make


def test_largest_gain_comes_first_then_the_largest_waste(ranked):
    assert ranked((1.1, 0.9), (None, 0.3), (2.0, 0.1), (1.001, 0.8)) == [
        (2.0, 0.1),
        (1.1, 0.9),
        (1.001, 0.8),
        (None, 0.3),
    ]
