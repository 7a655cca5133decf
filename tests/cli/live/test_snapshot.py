"""Words of a snapshot."""

from __future__ import annotations

import pytest

from lab.cli.live.snapshot import Phase, clock_text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (7.9, "0:07"), (760, "12:40"), (3600, "1:00:00"), (11105, "3:05:05")]
)
def test_durations_are_written_as_clocks_write_them(seconds, text):
    assert clock_text(seconds) == text


def test_only_an_end_is_over():
    assert [phase for phase in Phase if phase.over] == [Phase.FINISHED, Phase.INTERRUPTED]
