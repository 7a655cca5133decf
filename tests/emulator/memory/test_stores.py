"""The log of stores."""

import numpy as np

from lab.emulator.memory.stores import StoreLog


def test_rows_are_ordered_and_each_stands_once():
    log = StoreLog()
    log.note(np.array([1, 0, 0]), np.array([32, 0, 16]), 16)
    log.note(np.array([0]), np.array([20]), 4)
    blocks, elements = log.elements(4)
    assert blocks.tolist() == [0] * 8 + [1] * 4
    assert elements.tolist() == [*range(8), *range(8, 12)]


def test_a_store_to_a_part_of_an_element_counts_for_it():
    log = StoreLog()
    log.note(np.array([3]), np.array([12]), 1)
    assert [element.tolist() for element in log.elements(8)] == [[3], [1]]


def test_nothing_stored():
    assert [len(element) for element in StoreLog().elements(4)] == [0, 0]
