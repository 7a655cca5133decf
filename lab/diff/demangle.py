"""C++ names of kernels, and symbols without what depends on the place of a source."""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Callable

from lab.toolchain.symbols import plain_name

_LIBRARIES = ("libstdc++.so.6", "libc++abi.1.dylib", "libc++.1.dylib")
"""Libraries with the demangler of the Itanium C++ ABI, `__cxa_demangle`."""

_UNIQUE = re.compile(
    r"(?<![0-9])(?P<length>\d+)(?P<name>_GLOBAL__N_|_INTERNAL_|__nv_static_)|(?P<bare>__nv_static_|_INTERNAL_|_GLOBAL__N_)"
)
_HASHED = re.compile(r"_[0-9a-f]{8}_\d+_\w*?_[0-9a-f]{8}(?:_\d+)?")
"""A suffix by nvcc and NVRTC for names of internal linkage: a hash of the source's path, its name, another hash."""


def stable_symbol(symbol: str) -> str:
    """Return a symbol without the hashes of its source's path, so that builds in two folders agree."""
    if match := _UNIQUE.search(symbol):
        if match["length"]:
            start, length = match.start("name"), int(match["length"])
            whole = symbol[start : start + length]
            if len(whole) == length:
                return f"{symbol[: match.start()]}12_GLOBAL__N_1{stable_symbol(symbol[start + length :])}"
        return _HASHED.sub("", symbol)
    return symbol


@functools.cache
def demangled(symbol: str) -> str:
    """Return the C++ name of a symbol with template arguments and without parameters: `ns::add<float, 4>`.

    Without a C++ runtime on this machine, template arguments are left out.
    """
    stable = stable_symbol(symbol)
    if not stable.startswith("_Z"):
        return stable
    text = _demangle(stable)
    return _without_parameters(text) if text else plain_name(stable)


def base_of(name: str) -> str:
    """Return a C++ name without template arguments: `ns::add` of `ns::add<float, 4>`."""
    return name.partition("<")[0]


@functools.cache
def _demangler() -> Callable[..., int | None] | None:
    for file in _LIBRARIES:
        try:
            function = getattr(ctypes.CDLL(file), "__cxa_demangle")
        except (OSError, AttributeError):
            continue
        function.restype = ctypes.c_void_p
        demangler: Callable[..., int | None] = function
        return demangler
    return None


def _demangle(symbol: str) -> str:
    """Return a demangled name; empty without a demangler, or if the symbol is not a C++ name."""
    demangler = _demangler()
    if demangler is None:
        return ""
    status = ctypes.c_int(0)
    address = demangler(symbol.encode(), None, None, ctypes.byref(status))
    if not address or status.value:
        return ""
    text = ctypes.string_at(address).decode("utf-8", "replace")
    libc = ctypes.CDLL(None)
    libc.free(ctypes.c_void_p(address))
    return text


def _without_parameters(text: str) -> str:
    """Return a function's name without its return type and parameters."""
    text = text.replace("(anonymous namespace)", "{anonymous}")
    depth, start = 0, 0
    for place, character in enumerate(text):
        if character == "<":
            depth += 1
        elif character == ">" and text[place - 1] != "-":
            depth -= 1
        elif depth == 0 and character == " ":
            start = place + 1
        elif depth == 0 and character == "(":
            return text[start:place].replace("{anonymous}", "(anonymous namespace)")
    return text[start:].replace("{anonymous}", "(anonymous namespace)")
