"""Prefetch distance of a loop's async copies."""

from __future__ import annotations

import pytest

from lab.isa.prefetch_distance import passes_ahead
from lab.isa.ptx.module import read_ptx

COPY = "cp.async.cg.shared.global [%r1], [%rd1], 16;"
COMMIT = "cp.async.commit_group;"


def body(*text: str):
    lines = "\n".join(text)
    (kernel,) = read_ptx(f".version 8.0\n.target sm_80\n.visible .entry k()\n{{\n{lines}\nret;\n}}\n").kernels
    return kernel.instructions


@pytest.mark.parametrize(
    ("text", "ahead"),
    [
        # three stages, of which one is awaited and the next one left in flight before another is asked for
        (("cp.async.wait_group 1;", "bar.sync 0;", COPY, COMMIT), 2),
        # asked for before the wait: the one that is left in flight is this step's
        ((COPY, COMMIT, "cp.async.wait_group 1;", "bar.sync 0;"), 1),
        # two groups a step
        (("cp.async.wait_group 4;", COPY, COMMIT, COPY, COMMIT), 3),
        (("cp.async.wait_group 0x2;", COPY, COMMIT, COPY, COMMIT), 2),
        # one pass is two steps
        (("cp.async.wait_group 1;", COPY, COMMIT, "cp.async.wait_group 1;", COPY, COMMIT), 1.5),
        ((COPY, COMMIT, "cp.async.wait_all;"), 0),
        ((COPY, COMMIT), None),
        (("cp.async.wait_group 1;",), None),
        (("bar.sync 0;",), None),
    ],
)
def test_copies_are_awaited_when_as_many_groups_more_have_been_committed(text, ahead):
    assert passes_ahead(body(*text)) == ahead
