from __future__ import annotations

import gc

import pytest

from lab.base.collecting import uncollected


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_left_as_it_was(enabled: bool) -> None:
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        with uncollected():
            assert not gc.isenabled()
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if before else gc.disable)()


def test_an_error_does_not_leave_it_off() -> None:
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError), uncollected():
        1 // gc.isenabled()
    assert gc.isenabled()
