"""Figures of records that a report asks for again and again are computed once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from lab.store.model import VariantRecord

P = ParamSpec("P")
T = TypeVar("T")

_KNOWN: ContextVar[dict[tuple[Any, ...], tuple[VariantRecord, Any]] | None] = ContextVar("_KNOWN", default=None)


@contextmanager
def remembering() -> Iterator[None]:
    """Within this context, functions that are `remembered` keep what they return, and the records that it is of."""
    token = _KNOWN.set({})
    try:
        yield
    finally:
        _KNOWN.reset(token)


def remembered(
    function: Callable[Concatenate[VariantRecord, P], T],
) -> Callable[Concatenate[VariantRecord, P], T]:
    """Let a function of a record and of hashable arguments by position compute each of its results once.

    A record is recognised by identity: comparing two takes longer than most figures.
    """

    @wraps(function)
    def found(record: VariantRecord, /, *args: P.args, **kwargs: P.kwargs) -> T:
        known = _KNOWN.get()
        if known is None:
            return function(record, *args, **kwargs)
        key = (function, id(record), args)
        if (answer := known.get(key)) is None:
            answer = known[key] = (record, function(record, *args, **kwargs))
        value: T = answer[1]
        return value

    return found
