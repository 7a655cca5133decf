"""Figures of records that a report asks for again and again are computed once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from lab.recorded.run_records import VariantRecord

P = ParamSpec("P")
T = TypeVar("T")


class _Known:
    """What was computed: function and further arguments to results by the record's identity; and those records."""

    __slots__ = ("records", "results")

    def __init__(self) -> None:
        self.records: dict[int, VariantRecord] = {}
        self.results: defaultdict[tuple[Any, ...], dict[int, Any]] = defaultdict(dict)


_KNOWN: ContextVar[_Known | None] = ContextVar("_KNOWN", default=None)


@contextmanager
def remembering() -> Iterator[None]:
    """Within this context, functions that are `remembered` keep what they return, and the records that it is of."""
    token = _KNOWN.set(_Known())
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
        results, place = known.results[(function, args)], id(record)
        if place not in results:
            known.records[place] = record  # so that no other record gets its identity
            results[place] = function(record, *args, **kwargs)
        value: T = results[place]
        return value

    return found
