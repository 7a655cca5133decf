"""Errors of Python's own that say what a machine lacks."""

from __future__ import annotations

import errno

import pytest

from lab.base.machine_errors import fault_of


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError(), "there is not enough memory"),
        (MemoryError("Unable to allocate 8 TiB"), "there is not enough memory: Unable to allocate 8 TiB"),
        (OSError(errno.EMFILE, "Too many open files"), "too many open files: this process may open "),
        (FileNotFoundError(errno.ENOENT, "No such file", "x"), "x: No such file"),
        (OSError("odd"), "odd"),
        (ModuleNotFoundError("No module named 'six'", name="six"), "a Python package is missing or damaged: No module"),
        (ImportError("libstdc++.so.6: cannot open"), "a Python package is missing or damaged: libstdc++"),
    ],
)
def test_what_the_machine_lacks_is_named(error, words):
    assert fault_of(error).startswith(words)


@pytest.mark.parametrize(
    "error", [KeyError("x"), ModuleNotFoundError("No module named 'lab.gone'", name="lab.gone"), OverflowError("x")]
)
def test_what_may_be_a_mistake_of_our_own_is_not(error):
    assert fault_of(error) == ""
