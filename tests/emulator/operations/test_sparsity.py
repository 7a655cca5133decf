"""Metadata of sparse matrices; whole instructions are in test_matrix.py."""

import numpy as np
import pytest

from lab.emulator.operations.sparsity import Sparsity, expand, places


@pytest.mark.parametrize(
    ("t", "k", "selectors"),
    [("f16", 16, 4), ("f16", 32, 2), ("tf32", 8, 4), ("tf32", 16, 2), ("s8", 32, 2), ("s8", 64, 1), ("s4", 64, 2),
     ("s4", 128, 1), ("e4m3", 64, 1)],
)  # fmt: skip
def test_lanes_that_give_metadata(t, k, selectors):
    assert Sparsity(t, k).selectors == selectors


def test_halves_of_a_word_belong_to_two_rows():
    words = np.zeros((1, 32), np.uint32)
    words[0, 4 * 3 + 2], words[0, 4 * 3 + 3] = 0xBBBB_AAAA, 0xDDDD_CCCC
    found = Sparsity("f16", 32).chosen(words, 1)
    assert found.shape == (1, 16, 2)
    assert found[0, 3].tolist() == [0xAAAA, 0xCCCC]
    assert found[0, 11].tolist() == [0xBBBB, 0xDDDD]


def test_bytes_take_whole_words():
    words = np.zeros((1, 32), np.uint32)
    words[0, 4:8] = 0x2222_1111, 0x4444_3333, 0x6666_5555, 0x8888_7777
    found = Sparsity("s8", 64).chosen(words, 0)
    assert found[0, 1].tolist() == [0x1111, 0x2222, 0x5555, 0x6666]
    assert found[0, 9].tolist() == [0x3333, 0x4444, 0x7777, 0x8888]


def test_two_of_four_pairs_of_eight_and_one_of_two():
    metadata = np.array([[[0b1101_1000_1001_0100]]], np.uint32)
    assert places(metadata, Sparsity("f16", 16))[0, 0].tolist() == [0, 1, 5, 6, 8, 10, 13, 15]
    assert places(metadata, Sparsity("s4", 32))[0, 0, :8].tolist() == [0, 1, 2, 3, 10, 11, 12, 13]
    ones = np.array([[[0b0100_1110_1110_0100]]], np.uint32)
    assert places(ones, Sparsity("tf32", 8))[0, 0].tolist() == [0, 3, 5, 6]


def test_what_is_not_stored_is_zero():
    metadata = np.array([[[0b1100_0100_0100_1001]]], np.uint32)
    full = expand(np.arange(1.0, 9).reshape(1, 1, 8), metadata, Sparsity("f16", 16))
    assert full.tolist() == [[[0, 1, 2, 0, 3, 4, 0, 0, 5, 6, 0, 0, 7, 0, 0, 8]]]
