from __future__ import annotations

import pytest

from lab.predict.work import Spilled


def test_a_request_of_local_memory_moves_a_word_for_each_lane() -> None:
    assert Spilled(3.0, 2.0, past_l1=0.0, past_l2=0.0).bytes == pytest.approx(5 * 32 * 4)
