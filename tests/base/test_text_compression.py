from __future__ import annotations

from hashlib import sha256

import pytest

from lab.base.text_compression import TextPacker


@pytest.mark.parametrize("text", ["", "one line", "ünï — 中文\n" * 50, "half of a pair \ud800", "x" * 100_000])
def test_texts_come_back_as_they_were(text):
    packer = TextPacker()
    assert [str(packer.pack("one", text)) for _ in range(2)] == [text, text]
    assert str(packer.pack("one", f"{text} and more")) == f"{text} and more"


def test_a_text_that_resembles_the_first_of_its_family_takes_a_fraction_of_it():
    packer, words = TextPacker(), " ".join(sha256(bytes([number])).hexdigest() for number in range(150))
    packer.pack("kernel", f"n = 1; {words}")
    assert len(packer.pack("kernel", f"n = 2; {words}").data) < len(words) / 20


def test_a_text_that_was_asked_for_lately_is_the_same_object():
    packer = TextPacker()
    first, second = packer.pack("kernel", "some source"), packer.pack("kernel", "some source")
    assert str(first) is str(second)
