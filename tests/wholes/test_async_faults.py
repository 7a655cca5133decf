"""Faults of asynchronous copies, mbarriers, clusters and named barriers are found, and their neighbours are clean."""

import async_cases
import compiling
import pytest

from lab.emulator.api import launch


def findings(case, pairs=()):
    ptx = compiling.compile_text(case.text(pairs), "-lineinfo", arch="compute_90a")
    return launch(ptx, "k", case.grid, case.block, case.arguments()).findings


@pytest.mark.parametrize("case", async_cases.CASES, ids=[case.name for case in async_cases.CASES])
def test_the_original_is_clean(case):
    assert findings(case) == ()


@pytest.mark.parametrize(
    ("case", "kinds", "pairs"),
    [
        pytest.param(case, kinds, pairs, id=f"{case.name}: {what}")
        for case in async_cases.CASES
        for what, kinds, pairs in case.changes
    ],
)
def test_a_fault_is_found_and_nothing_else(case, kinds, pairs):
    found = findings(case, pairs)
    if not kinds:
        assert found == ()
        return
    assert {one.kind for one in found} & set(kinds), found
    assert all(one.line > 0 and one.source is not None and one.thread is not None for one in found)
