"""Findings in words."""

from __future__ import annotations

import pytest

from lab.advice.finding import Advice, CodePlace, PerformanceFinding, Rule, Skipped
from lab.isa.model import SourceLocation

PLACE = CodePlace(SourceLocation("/src/kernel.cu", 12), 40, 90, "ld.shared.f32")


def finding(gain=1.36, place=PLACE):
    return PerformanceFinding(Rule.BANK_CONFLICT, place, "32-way", "pad", 0.9, gain)


@pytest.mark.parametrize(
    ("place", "short"),
    [
        (PLACE, "kernel.cu:12 (PTX line 40, SASS line 90)"),
        (CodePlace(SourceLocation("kernel.cu", 3)), "kernel.cu:3"),
        (CodePlace(None, 7), "PTX line 7"),
        (CodePlace(), ""),
    ],
)
def test_place_names_what_is_known(place, short):
    assert place.short == short


def test_finding_is_two_lines():
    assert finding().lines == (
        "bank conflict at kernel.cu:12 (PTX line 40, SASS line 90): 32-way; 1.36 x faster without it (predicted)",
        "remedy: pad",
    )
    assert finding(place=CodePlace()).lines[0].startswith("bank conflict: 32-way")


@pytest.mark.parametrize(
    ("gain", "text"),
    [
        (None, "gain not predicted"),
        (1.001, "hidden behind other costs (predicted)"),
        (2, "2.00 x faster without it (predicted)"),
    ],
)
def test_gain_in_words(gain, text):
    assert finding(gain).gain_text == text


def test_nothing_is_said_to_be_found_only_where_all_rules_were_checked():
    assert Advice(()).closing == f"no performance findings: all {len(Rule)} rules were checked"
    partly = Advice(
        (), (Skipped(Rule.TAIL_WAVE, "a GPU"), Skipped(Rule.LATENCY, "a GPU"), Skipped(Rule.CODE_SIZE, "SASS"))
    )
    assert partly.closing == "not checked: tail wave, latency-bound loop (needs a GPU); code size (needs SASS)"
    assert Advice((finding(),)).closing == ""


def test_text_is_cut_behind_the_most():
    lines = Advice((finding(), finding(2.0), finding(3.0))).text(1)
    assert lines[0].startswith("1. bank conflict")
    assert lines[1] == "   remedy: pad"
    assert lines[2:] == ("2 further findings",)
