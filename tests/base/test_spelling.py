from __future__ import annotations

import os

from lab.base.spelling import spelled


def test_what_is_no_text_becomes_one() -> None:
    assert spelled("größe") == "größe"
    assert spelled(os.fsdecode("größe".encode())) == "größe"
    assert spelled("gr\udcc3\udcb6\udcc3\udc9fe") == "größe"  # as Python reads it in the locale C
    assert spelled("b\udcff") == "b\ufffd"
    assert spelled("b\ud800\udcff") == "b??"
