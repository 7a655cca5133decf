"""Kernels with memory that nothing wrote, neighbours, clusters and copies: clean as they are, found once changed."""

import compiling
import fault_cases
import pytest

from lab.emulator.api import launch

CASES = (*fault_cases.CASES, *fault_cases.SLOW_TO_COMPILE)
EXPECTED = {
    "a sum of a column": "uninitialised-register",
    "a place of the largest": "uninitialised-register",
    "a table in local memory": "uninitialised-read",
    "two arrays in shared memory": "out-of-bounds",
    "asynchronous copies": "async-not-waited",
    "a tile of matrices whose last rows and columns nobody fills": "uninitialised-read",
    "half of a warp reduces": "warp-divergence",
    "blocks of a cluster exchange": "missing-cluster-sync shared-race",
}
MUTANTS = [(case, change) for case in CASES for change in case.mutants]


def run(case, old="", new=""):
    assert old in case.source
    arguments = case.arguments()
    source = case.source.replace(old, new, 1) if old else case.source
    return launch(compiling.ptx_of(source), "k", case.grid, case.block, arguments), arguments


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_originals_are_clean(case):
    emulation, arguments = run(case)
    assert emulation.clean, emulation.findings
    assert case.check(arguments)


@pytest.mark.parametrize(("case", "change"), MUTANTS, ids=lambda one: getattr(one, "name", None))
def test_each_change_is_found_by_the_line_of_the_source(case, change):
    emulation, _ = run(case, *change)
    kinds = {finding.kind for finding in emulation.findings}
    assert kinds & set(EXPECTED[case.name].split())
    assert all(finding.source is not None and "kernel.cu" in finding.source.file for finding in emulation.findings)
