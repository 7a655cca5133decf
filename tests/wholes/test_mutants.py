"""Every planted fault is found, as the fault that it is."""

import compiling
import mutants
import pytest

from lab.emulator import api


@pytest.mark.parametrize("mutant", mutants.MUTANTS, ids=[mutant.name for mutant in mutants.MUTANTS])
def test_found(mutant, monkeypatch):
    monkeypatch.setattr(api, "DEFAULT_MAX_STEPS", 100_000)
    ptx = compiling.compile_text(mutant.apply(compiling.source(mutant.kernel)), "-lineinfo")
    outcome = mutant.case(ptx)
    kinds = {finding.kind for finding in outcome.emulation.findings}
    if not outcome.right:
        kinds.add("wrong-result")
    assert kinds & set(mutant.kinds), kinds
    for finding in outcome.emulation.findings:
        if finding.kind != "never-written":
            assert finding.line > 0
            assert finding.text
            assert finding.source is not None
            assert finding.block is not None
            assert finding.thread is not None
        if finding.kind == "shared-race":
            assert finding.other is not None


def test_enough_mutants():
    assert len(mutants.MUTANTS) >= 30
