"""Blocks that acquire tensor maps, and threads that change these."""

from lab.emulator.memory.mapfences import MapFences, MapState


def test_an_acquire_is_of_one_block_one_map_and_what_was_there_before():
    fences = MapFences()
    assert fences.state(0x100, 0, 0) is MapState.NEVER_FENCED
    assert fences.state(0x100, 0, 7) is MapState.CHANGED_SINCE
    fences.acquire(0x100, 0, 8)
    assert fences.state(0x100, 0, 0) is MapState.FENCED
    assert fences.state(0x100, 0, 7) is MapState.FENCED
    assert fences.state(0x100, 0, 8) is MapState.CHANGED_SINCE
    assert fences.state(0x100, 1, 0) is MapState.NEVER_FENCED
    assert fences.state(0x180, 0, 7) is MapState.CHANGED_SINCE
