"""Parse kernel arguments from the command line.

``f32[64,32]=normal`` is a buffer, ``i32=5`` a scalar, ``f32[64,32]=out`` a poisoned output of which every element
must be written.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.base.errors import UserError, did_you_mean
from lab.emulator.results import Buffer

_TYPES = {
    **{
        f"{letter}{bits}": f"{code}{bits // 8}" for letter, code in (("i", "i"), ("u", "u")) for bits in (8, 16, 32, 64)
    },
    "f16": "f2",
    "f32": "f4",
    "f64": "f8",
}
_FILLS = ("zeros", "ones", "range", "normal", "uninitialised", "out")
_WORD = re.compile(r"^([a-z]+\d+)(?:\[(\d+(?:,\d+)*)\])?=(\S+)$")
_MOST_ELEMENTS = 2**28
"""The largest buffer to fill: 2 GiB of doubles, far more than an emulated kernel needs."""

_MOST_DIGITS = 10
_MOST_SHOWN = 60
_ACCEPTED = "TYPE=NUMBER or TYPE[SIZE,...]=FILL, such as i32=5 or f32[64,32]=normal"


def arguments_from_words(words: Sequence[str], seed: int = 0) -> list[Any]:
    """Parse words into the ``args`` of `launch`.

    Args:
        words: One word for each argument.
        seed: Seed of the random fills.

    Raises:
        UserError: a word is not an argument.
    """
    random = np.random.default_rng(seed)
    return [_argument(word, position, random) for position, word in enumerate(words)]


def _argument(word: str, position: int, random: np.random.Generator) -> Any:  # noqa: ANN401  a scalar or a buffer
    key = f"args[{position}]"
    match = _WORD.match(word)
    if match is None:
        raise UserError("not a kernel argument", code="wrong-type", key=key, found=word, accepted=_ACCEPTED)
    name, sizes, value = match.groups()
    if name not in _TYPES:
        raise UserError(
            "unknown type",
            code="unknown-name",
            key=key,
            found=name,
            accepted=list(_TYPES),
            suggestion=did_you_mean(name, _TYPES),
        )
    dtype = np.dtype(_TYPES[name])
    if sizes is None:
        return _number(value, dtype, key)
    if value not in _FILLS:
        raise UserError(
            "unknown fill",
            code="unknown-name",
            key=key,
            found=value,
            accepted=_FILLS,
            suggestion=did_you_mean(value, _FILLS),
        )
    shape = _shape(sizes, key)
    array = _filled(value, shape, dtype, random)
    return Buffer(array, initialised=value not in ("uninitialised", "out"), output=value == "out")


def _shape(sizes: str, key: str) -> tuple[int, ...]:
    parts = sizes.split(",")
    # a very long number is refused before it is converted
    if any(len(size) > _MOST_DIGITS for size in parts) or math.prod(map(int, parts)) > _MOST_ELEMENTS:
        excerpt = sizes if len(sizes) <= _MOST_SHOWN else f"{sizes[:_MOST_SHOWN]}..."
        raise UserError(
            "the buffer is too large",
            code="out-of-range",
            key=key,
            found=excerpt,
            accepted=f"at most {_MOST_ELEMENTS} elements",
        )
    return tuple(map(int, parts))


def _number(text: str, dtype: np.dtype[Any], key: str) -> Any:  # noqa: ANN401  a NumPy scalar of any type
    try:
        number = float(text) if dtype.kind == "f" else int(text, 0)
        return np.array(number, dtype)[()]
    except (ValueError, OverflowError):
        raise UserError(
            "not a number of this type", code="wrong-type", key=key, found=text, accepted=dtype.name
        ) from None


def _filled(fill: str, shape: tuple[int, ...], dtype: np.dtype[Any], random: np.random.Generator) -> NDArray[Any]:
    if fill == "range":
        return np.arange(np.prod(shape)).astype(dtype).reshape(shape)
    if fill == "normal":
        return (random.standard_normal(shape) * (1 if dtype.kind == "f" else 100)).astype(dtype)
    if fill == "ones":
        return np.ones(shape, dtype)
    if fill == "zeros":
        return np.zeros(shape, dtype)
    return np.full(shape, np.nan if dtype.kind == "f" else 0x55, dtype)  # poison: no result looks like it
