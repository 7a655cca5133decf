"""Types of kernel parameters: CUDA C++ names to NumPy dtypes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from lab.base.elements import C_NAMES

_SHORT_VECTORS = {
    "char": "int8",
    "uchar": "uint8",
    "short": "int16",
    "ushort": "uint16",
    "int": "int32",
    "uint": "uint32",
    "long": "int64",
    "ulong": "uint64",
    "longlong": "int64",
    "ulonglong": "uint64",
    "float": "float32",
    "double": "float64",
}
_PAIRS = {"__half2": "float16", "half2": "float16", "__nv_bfloat162": "bfloat16", "nv_bfloat162": "bfloat16"}
_OF_CUTLASS = {
    "half_t": "float16",
    "bfloat16_t": "bfloat16",
    "tfloat32_t": "float32",
    "float_e4m3_t": "float8_e4m3fn",
    "float_e5m2_t": "float8_e5m2",
}
"""Type names of CUTLASS and CuTe, unless the source defines the name itself."""
_SHORT_VECTOR = re.compile(rf"({'|'.join(_SHORT_VECTORS)})([1234])(?:_16a|_32a)?")
_NAMESPACES = re.compile(r"^(?:::)?(?:(?:std|cuda|thrust|cutlass|cute|__)\w*::)+|^::")
_INTEGER_WORDS = {"signed", "unsigned", "short", "long", "int", "char"}
_DEEPEST_ALIAS = 16

TYPE_NAMES = frozenset(
    {word for name in C_NAMES for word in re.findall(r"\w+", name)}
    | {f"{name}{lanes}" for name in _SHORT_VECTORS for lanes in "1234"}
    | set(_PAIRS)
    | {"void", "auto", "dim3", "signed", "wchar_t", "cudaTextureObject_t", "cudaSurfaceObject_t", "CUtensorMap"}
)
"""Words that name a type of C++ or of CUDA's headers."""


@dataclass(frozen=True, slots=True)
class CElement:
    """The element of an array of some C type.

    Attributes:
        dtype: NumPy's name, or `bfloat16`.
        lanes: Elements of a short vector: 4 for `float4`, else 1.
    """

    dtype: str
    lanes: int = 1


def element_type(c_type: str, aliases: Mapping[str, str] | None = None) -> CElement | None:
    """Return the element of a C type without pointers, or None if unknown.

    Args:
        c_type: The type, such as `const unsigned int` or `float4`. Qualifiers are ignored.
        aliases: Type aliases, from `typedef`, `using` or macros: `{"real": "float"}`.
    """
    for _ in range(_DEEPEST_ALIAS):
        name = _plain(c_type)
        if element := _known(name):
            return element
        if not aliases or name not in aliases:
            return CElement(_OF_CUTLASS[name]) if name in _OF_CUTLASS else None
        c_type = aliases[name]
    return None


def _known(name: str) -> CElement | None:
    if name in C_NAMES:
        return CElement(C_NAMES[name])
    if name in _PAIRS:
        return CElement(_PAIRS[name], 2)
    match = _SHORT_VECTOR.fullmatch(name)
    return CElement(_SHORT_VECTORS[match[1]], int(match[2])) if match else None


def _plain(c_type: str) -> str:
    """Return a type without qualifiers and namespaces, with integer types in one spelling."""
    words = re.findall(r"::|\w+|\S", c_type)
    words = [word for word in words if word not in ("const", "volatile", "struct", "enum", "typename")]
    if words and _INTEGER_WORDS.issuperset(words):
        return _integer(words)
    return _NAMESPACES.sub("", "".join(words))


def _integer(words: list[str]) -> str:
    if "char" in words:
        sign = next((word for word in words if word in ("signed", "unsigned")), "")
        return f"{sign} char".strip()
    sizes = [word for word in words if word in ("short", "long")]
    unsigned = ["unsigned"] if "unsigned" in words else []
    return " ".join([*unsigned, *sizes]) or "int"
