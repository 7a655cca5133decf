"""A cache of figures of records within one report."""

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
    """The cached results: function and further arguments to results by the record's identity; and the records."""

    __slots__ = ("records", "results")

    def __init__(self) -> None:
        self.records: dict[int, VariantRecord] = {}
        self.results: defaultdict[tuple[Any, ...], dict[int, Any]] = defaultdict(dict)


_KNOWN: ContextVar[_Known | None] = ContextVar("_KNOWN", default=None)


@contextmanager
def remembering() -> Iterator[None]:
    """Cache the results of `remembered` functions, and their records, within the `with` block."""
    token = _KNOWN.set(_Known())
    try:
        yield
    finally:
        _KNOWN.reset(token)


def remembered(
    function: Callable[Concatenate[VariantRecord, P], T],
) -> Callable[Concatenate[VariantRecord, P], T]:
    """Cache a function of a record and hashable positional arguments.

    A record is recognised by identity: comparing two takes longer than most figures.
    """

    @wraps(function)
    def memoised(record: VariantRecord, /, *args: P.args, **kwargs: P.kwargs) -> T:
        memo = _KNOWN.get()
        if memo is None:
            return function(record, *args, **kwargs)
        results, place = memo.results[(function, args)], id(record)
        if place not in results:
            memo.records[place] = record  # so that no other record gets its identity
            results[place] = function(record, *args, **kwargs)
        value: T = results[place]
        return value

    return memoised
