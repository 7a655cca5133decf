from __future__ import annotations

import numpy as np

from lab.templates.mapping.traffic import conflicts, placed, requests, sectors

EVERY = np.ones((1, 32), bool)
LANES = np.arange(32)[None, :]


def test_a_request_holds_one_index_of_a_warp() -> None:
    elements = np.arange(64 * 2).reshape(64, 2)
    found = requests(elements, 1)
    assert found.shape == (4, 32)
    assert sorted(found[:, 0].tolist()) == [0, 1, 64, 65]
    assert requests(elements, 2)[:, 0].tolist() == [0, 64]


def test_a_part_of_a_warp_is_padded_with_idle_lanes() -> None:
    found = requests(np.arange(5)[:, None], 1)
    assert found.shape == (1, 32)
    assert (found[0, 5:] == -1).all()


def test_requests_without_an_access_are_left_out() -> None:
    elements = np.full((64, 1), -1)
    elements[:3, 0] = [0, 1, 2]
    assert requests(elements, 1).shape == (1, 32)


def test_a_warp_that_touches_nothing_with_one_index_makes_no_request() -> None:
    """Idle requests would lower the mean of sectors and conflicts: here two of three are idle."""
    elements = np.full((32, 3), -1)
    elements[:, 1] = np.arange(32) * 8
    found = requests(elements, 1)
    assert found.tolist() == [(np.arange(32) * 8).tolist()]
    far, near, active = placed(elements, 1, 256, transposed=False)
    assert sectors(far, near * 4, 4, active) == 32


def test_a_remainder_of_a_vector_is_not_accessed() -> None:
    assert requests(np.arange(32 * 3).reshape(32, 3), 2).shape == (1, 32)


def test_elements_are_placed_in_rows() -> None:
    elements = np.arange(32)[:, None]
    far, near, active = placed(elements, 1, 8, transposed=False)
    assert (far[0, 9], near[0, 9], bool(active.all())) == (1, 1, True)
    far, near, _ = placed(elements, 1, 8, transposed=True)
    assert (far[0, 10], near[0, 10]) == (2, 1)


def test_idle_lanes_are_not_active() -> None:
    _, _, active = placed(np.arange(5)[:, None], 1, 8, transposed=False)
    assert active.sum() == 5


def test_rows_far_apart_share_no_sector() -> None:
    assert sectors(LANES * 0, LANES * 4, 4, EVERY) == 4
    assert sectors(LANES // 8, LANES % 8 * 4, 4, EVERY) == 4
    assert sectors(LANES, LANES * 0, 4, EVERY) == 32
    assert sectors(LANES * 0, LANES * 4 + 4, 4, EVERY) == 5


def test_conflicts_are_wavefronts_beyond_the_least() -> None:
    assert conflicts(LANES * 4, 4, EVERY, loads=True) == 0
    assert conflicts(LANES * 128, 4, EVERY, loads=True) == 31
    assert conflicts(LANES * 8, 4, EVERY, loads=True) == 1
    assert conflicts(LANES * 0, 4, EVERY, loads=True) == 0


def test_a_request_for_the_first_element_alone_is_one() -> None:
    assert requests(np.array([[0]]), 1).tolist() == [[0, *[-1] * 31]]
    assert requests(np.array([[1]]), 1).shape == (1, 32)
    _, _, active = placed(np.array([[0]]), 1, 8, transposed=False)
    assert active.sum() == 1
    assert requests(np.full((64, 2), -1), 1).shape == (0, 32)
