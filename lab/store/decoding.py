"""Decoding of untrusted JSON, with a limit on the number of values and one-line errors."""

from __future__ import annotations

import json
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter, ValidationError

from lab.base.errors import StoreError

T = TypeVar("T")

MOST_VALUES: Final = 5_000_000
"""The most values in one text. A record has a thousand, a large run's archive half a million."""

_MOST_FAST: Final = 200_000
"""The most values of a text that pydantic parses itself: faster, but up to 3.5 KB per invalid value."""

_MOST_REASON: Final = 300


def decode(adapter: TypeAdapter[T], text: str | bytes, place: str) -> T:
    """Decode and validate JSON text.

    Args:
        adapter: Checks the values.
        text: The text.
        place: Where it stands, for messages: `reports/gemm: the run's facts`.

    Raises:
        StoreError: The text is not JSON, holds too many values, or other values than these.
    """
    if _values(text) > _MOST_FAST:
        return validate(adapter, plain(text, place), place)
    try:
        return adapter.validate_json(text)
    except ValueError as error:
        raise _unreadable(place, error) from error


def validate(adapter: TypeAdapter[T], value: object, place: str) -> T:
    """Validate plain values; see `decode`."""
    try:
        return adapter.validate_python(value)
    except ValueError as error:
        raise _unreadable(place, error) from error


def plain(text: str | bytes, place: str, most_values: int | None = None) -> Any:  # noqa: ANN401 - whatever JSON holds
    """Return the values of JSON text, by default at most `MOST_VALUES`; see `decode`."""
    limit = most_values or MOST_VALUES
    if (values := _values(text)) > limit:
        raise StoreError(f"{place} cannot be read: expected at most {limit} values, found {values}")
    try:
        value = json.loads(text)
        if b"\\u" in _encoded(text):
            json.dumps(value, ensure_ascii=False).encode()  # half of a surrogate pair cannot be written again
    except (ValueError, RecursionError) as error:
        raise _unreadable(place, error) from error
    return value


def _encoded(text: str | bytes) -> bytes:
    return text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text


def _values(text: str | bytes) -> int:
    """Return an upper bound of the number of values in a JSON text."""
    content = _encoded(text)
    return 1 + content.count(b",") + content.count(b"[") + content.count(b"{")


def _unreadable(place: str, error: ValueError | RecursionError) -> StoreError:
    reason = str(error)
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        key = ".".join(map(str, first["loc"]))
        reason = f"{key[:_MOST_REASON]}: {first['msg']}" if key else first["msg"]
    return StoreError(f"{place} cannot be read: {reason[:_MOST_REASON]}")
