"""The columns of tensor memory: which are free, and which areas meet. Products are tested with tcgen05."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from lab.emulator.memory.tensor import Area, TensorMemory


def memory():
    """Tensor memory of two blocks of four warps, and the kinds and details of what it finds."""
    found: list[tuple[str, str]] = []
    batch = SimpleNamespace(blocks=2, threads=256, block_of=np.repeat([0, 1], 128))
    watch = SimpleNamespace(bulk=None, shadow=None, clocks=None)
    findings = SimpleNamespace(add=lambda kind, _position, detail, _threads, **_: found.append((kind, detail)))
    return TensorMemory(cast("Any", batch), cast("Any", watch), cast("Any", findings)), found


def area(first, columns, lanes=range(32), block=0):
    return Area(block, tuple(lanes), first, columns)


@pytest.mark.parametrize(
    ("one", "two", "meets", "covers"),
    [
        (area(0, 32), area(16, 8), True, True),
        (area(0, 32), area(16, 32), True, False),
        (area(0, 32), area(32, 8), False, False),
        (area(0, 32), area(0, 32, range(32, 64)), False, False),
        (area(0, 32), area(0, 32, range(128)), True, False),
        (area(0, 32, range(128)), area(0, 32, range(32, 48)), True, True),
        (area(0, 32), area(0, 32, block=1), False, False),
    ],
)
def test_areas_meet_and_cover(one, two, meets, covers):
    assert one.meets(two) is two.meets(one) is meets
    assert one.covers(two) is covers


def test_columns_are_allocated_at_multiples_of_their_number_in_each_block():
    tensor, found = memory()
    assert [tensor.allocate(1, 0, count, 0) for count in (64, 32, 128, 32)] == [0, 64, 128, 96]
    assert tensor.allocate(1, 1, 512, 128) == 0
    tensor.free(2, 0, 64, 32, 0)
    assert tensor.allocate(3, 0, 32, 0) == 64
    assert found == []


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda tensor: tensor.allocate(1, 0, 48, 0), "48 columns; accepted are 32, 64, 128, 256, 512"),
        (lambda tensor: [tensor.allocate(1, 0, 512, 0) for _ in range(2)], "512 more are not free"),
        (lambda tensor: (tensor.relinquish(0), tensor.allocate(1, 0, 32, 0)), "given up its right"),
        (lambda tensor: tensor.free(1, 0, 0, 32, 0), "were not allocated together"),
        (lambda tensor: (tensor.allocate(1, 0, 64, 0), tensor.free(1, 0, 0, 32, 0)), "were not allocated together"),
    ],
)
def test_wrong_allocations_are_found(act, words):
    tensor, found = memory()
    act(tensor)
    ((kind, detail),) = found
    assert kind == "tensor-memory-misuse"
    assert words in detail


def test_what_a_block_has_not_freed_is_found_when_its_last_thread_ends():
    tensor, found = memory()
    tensor.allocate(1, 0, 32, 0)
    tensor.allocate(1, 1, 32, 128)
    alive = np.ones(256, np.bool_)
    first = cast("Any", SimpleNamespace(indices=lambda: np.arange(128)))
    tensor.leave(first, alive)
    assert found == []
    alive[:128] = False
    tensor.leave(first, alive)
    assert [kind for kind, _ in found] == ["tensor-memory-misuse"]


def test_new_columns_hold_nothing_and_stored_ones_what_was_stored():
    tensor, found = memory()
    tensor.allocate(1, 0, 32, 0)
    values = np.arange(32 * 4, dtype=np.uint32).reshape(32, 4)
    tensor.write(area(4, 4), values)
    np.testing.assert_array_equal(tensor.read(2, area(4, 4), np.arange(32)), values)
    assert found == []
    tensor.read(2, area(5, 4), np.arange(32))
    assert [kind for kind, _ in found] == ["uninitialised-read"]
    assert not tensor.within(3, area(30, 4), np.arange(32))
