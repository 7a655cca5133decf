"""A variant's record as the stages fill it in."""

from __future__ import annotations

import pytest

from lab.stages import record as records


@pytest.mark.parametrize(
    ("built", "gpu", "runs"),
    [
        ("sm_90", "sm_90", True),
        ("sm_80", "sm_86", True),
        ("sm_86", "sm_80", False),
        ("sm_80", "sm_90", False),
        ("sm_90a", "sm_90", True),
        ("sm_100", "sm_103", True),
        ("sm_100a", "sm_103", False),
        ("sm_120", "sm_100", False),
    ],
)
def test_which_machine_code_runs_where(built, gpu, runs):
    assert records.runs_on(built, gpu) is runs
