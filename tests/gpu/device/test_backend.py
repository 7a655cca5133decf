from __future__ import annotations

from lab.gpu.device.backend import in_turn


def test_computations_are_queued_in_order_every_time():
    queued: list[str] = []
    launch = in_turn([lambda name=name: queued.append(name) for name in "abc"])  # type: ignore[misc] # the default binds the loop's name
    assert queued == []
    launch()
    launch()
    assert "".join(queued) == "abcabc"


def test_a_single_computation_is_not_wrapped():
    def launch() -> None:
        pass

    assert in_turn([launch]) is launch
