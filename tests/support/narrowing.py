"""Asserts that a value is what a test goes on with, in a way that type checkers follow."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def known(value: T | None) -> T:
    """The value, which is not None."""
    assert value is not None
    return value


def as_(kind: type[T], value: object) -> T:
    """The value, which is an instance of a type."""
    assert isinstance(value, kind)
    return value
