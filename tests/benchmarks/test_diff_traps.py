"""`benchmarks/diff_traps.py`: every trap is told for one architecture, and some harmless changes are not raised."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def script(benchmark_script):
    return benchmark_script("diff_traps")


def test_every_trap_is_told(script):
    told = script.told_traps("sm_90")
    assert len(told) >= 20
    assert [name for name, how in told.items() if not how] == []


def test_harmless_changes_are_not_raised(script):
    """Renaming of locals, constants, called functions and kernels, unused code, other lines and another file."""
    figures = script.harmless_figures(3, 12, script.pool("own"))
    assert figures["harmless called harmless"] == "12 of 12", figures["raised"]


def test_mutants_are_told(script):
    figures = script.mutant_figures(5, 10, script.pool("own"))
    assert figures["changed and called harmless"] == []
    assert figures["mutants"] >= 10
