from __future__ import annotations

import pytest
from pydantic import TypeAdapter

from lab.base.errors import StoreError
from lab.store import decoding
from lab.store.decoding import decode, plain, validate

PAIRS = TypeAdapter(list[tuple[int, float]])


@pytest.mark.parametrize("fast", [decoding._MOST_FAST, 0], ids=["by pydantic", "by Python"])
def test_values_are_those_of_the_text(monkeypatch: pytest.MonkeyPatch, fast: int) -> None:
    monkeypatch.setattr(decoding, "_MOST_FAST", fast)
    for text in ("[[1, 2.5], [3, 4]]", b"[[1, 2.5], [3, 4]]"):
        assert decode(PAIRS, text, "here") == [(1, 2.5), (3, 4.0)]
    for text, reason in (
        ("[[1]]", r"here cannot be read: 0\.1: Field required"),
        ('[[1, "x"], 2]', r"here cannot be read: 0\.1: Input should be a valid number"),
        ("[[1, 2]", "here cannot be read: "),
        (b"\xff", "here cannot be read: "),
        ("[" * 100_000, "here cannot be read: "),
    ):
        with pytest.raises(StoreError, match=reason) as caught:
            decode(PAIRS, text, "here")
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 400


def test_more_values_than_memory_has_room_for_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "_MOST_FAST", 2)
    monkeypatch.setattr(decoding, "MOST_VALUES", 4)
    assert plain("[1, [2]]", "here") == [1, [2]]
    with pytest.raises(StoreError, match="here cannot be read: expected at most 4 values, found 7"):
        decode(PAIRS, "[[], [], []]", "here")


@pytest.mark.parametrize("text", ['["\\ud800"]', b'["\\ud800"]'])
def test_half_a_surrogate_pair_is_refused(text: str | bytes) -> None:
    assert plain('["\\ud83d\\ude00"]', "here") == ["😀"]
    with pytest.raises(StoreError, match=r"here cannot be read: .*surrogates not allowed"):
        plain(text, "here")


def test_plain_values_are_checked_alike() -> None:
    assert validate(PAIRS, [[1, 2]], "here") == [(1, 2.0)]
    with pytest.raises(StoreError, match=r"here cannot be read: Input should be a valid list"):
        validate(PAIRS, 3, "here")
