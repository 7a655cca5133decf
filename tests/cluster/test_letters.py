"""Letters: what is large travels by its hash."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lab.cluster import letters
from lab.toolchain.nvrtc.compiler import find_nvrtcs


def test_large_parts_are_left_out_and_put_back() -> None:
    cubin, source = bytes(range(256)) * 40, "x" * 5000
    value = (cubin, [source, source], "short", {"again": cubin})
    letter, parts = letters.write(value)
    assert set(letter.parts) == set(parts) == {letters.hash_of(cubin), letters.hash_of(source)}
    assert len(letter.text) < 500
    assert letters.read(letter, parts) == value


def test_what_is_stored_becomes_the_part_again() -> None:
    for part in ("é\ud800" * 3000, b"\x00\xff" * 3000):
        name, stored = letters.hash_of(part), letters.to_bytes(part)
        assert letters.is_whole(name, stored)
        assert not letters.is_whole(name, stored + b"!")
        assert letters.from_bytes(name, stored) == part


def test_equal_text_and_bytes_are_two_parts() -> None:
    assert letters.hash_of("a" * 5000) != letters.hash_of(b"a" * 5000)


def test_a_part_that_is_not_there_is_named() -> None:
    letter, _ = letters.write("y" * 5000)
    with pytest.raises(KeyError, match=letter.parts[0]):
        letters.read(letter, {})


def test_what_cannot_be_pickled_is_refused() -> None:
    with pytest.raises((AttributeError, TypeError)):
        letters.write(lambda: None)


def test_a_toolchain_travels_without_its_path() -> None:
    (here, *_) = find_nvrtcs()
    theirs = replace(here, library=Path("/theirs/libnvrtc.so"))
    letter, _ = letters.write([theirs, theirs])
    assert b"theirs" not in letter.text
    assert letters.read(letter, {}) == [here, here]
