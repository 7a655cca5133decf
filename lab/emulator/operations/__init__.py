"""Every operation of the machine; importing this fills the tables in `base`."""

from lab.emulator.operations import (
    asynchronous,
    atomic,
    bits,
    bulk,
    compare,
    convert,
    floating,
    integer,
    matrix,
    memory,
    move,
    warp,
)

__all__ = [
    "asynchronous",
    "atomic",
    "bits",
    "bulk",
    "compare",
    "convert",
    "floating",
    "integer",
    "matrix",
    "memory",
    "move",
    "warp",
]
