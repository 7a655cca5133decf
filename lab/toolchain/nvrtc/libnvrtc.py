"""Call libnvrtc through ctypes: one library per path, any number of versions in one process.

It is written by hand because NVIDIA's own bindings load only one NVRTC of one CUDA major version, and a comparison of
compilers needs 11.8, 12.9 and 13.x beside each other. The eleven functions that are called have kept their signatures
since 11.2 (NVRTC documentation, "User Interface"). The dynamic loader distinguishes libraries that are opened by path
by their files, even if two versions share a soname.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lab.base.errors import MissingToolError
from lab.toolchain.symbols import from_global_scope

_SUCCESS = 0  # NVRTC_SUCCESS


@dataclass(frozen=True, slots=True)
class NvrtcOutput:
    """NVRTC's output for one program.

    Attributes:
        ok: Whether it compiled.
        ptx: PTX text; empty if it did not compile.
        cubin: The ELF image; empty for a virtual architecture.
        log: Everything the compiler printed.
        symbols: Symbols of the requested kernels, by their expressions; empty if it did not compile.
    """

    ok: bool
    ptx: str
    cubin: bytes
    log: str
    symbols: Mapping[str, str] = field(default_factory=dict)


class NvrtcLibrary:
    """One libnvrtc, made by `load`.

    Attributes:
        path: The library.
        architectures: Compute capabilities that it can target, ascending: 75, 80.
        version: Its version in full, such as `13.5.37`.
    """

    def __init__(self, path: Path) -> None:
        """Load the library.

        Raises:
            MissingToolError: The library cannot be loaded, or is not an NVRTC of 11.2 or later.
        """
        self.path = path
        try:
            self._api = ctypes.CDLL(str(path))
            self._text = self._api.nvrtcGetErrorString
            self._text.argtypes, self._text.restype = [ctypes.c_int], ctypes.c_char_p
            self.architectures = self._architectures()
            self.version = self._version()
        except (OSError, AttributeError) as error:  # ctypes raises AttributeError for a function that the library lacks
            raise MissingToolError(f"cannot load NVRTC from {path}: {error}") from error

    def compile(
        self,
        source: str,
        name: str,
        options: Sequence[str],
        included: Mapping[str, str],
        kernels: Sequence[str] = (),
    ) -> NvrtcOutput:
        """Compile one program.

        Args:
            source: CUDA C++.
            name: Its name in messages and line tables.
            options: NVRTC's options.
            included: Maps the names of included headers to their texts.
            kernels: Kernels as C++ expressions, which are instantiated and whose symbols are returned.

        Raises:
            MissingToolError: NVRTC has an internal failure.
        """
        api, program = self._api, ctypes.c_void_p()
        headers = _strings(included.values()), _strings(included)
        self._call("nvrtcCreateProgram", ctypes.byref(program), source.encode(), name.encode(), len(included), *headers)
        try:
            for kernel in kernels:
                self._call("nvrtcAddNameExpression", program, from_global_scope(kernel).encode())
            with _own_locale():
                result = api.nvrtcCompileProgram(program, len(options), _strings(options))
            log = self._bytes("ProgramLog", program).decode(errors="replace")
            if result != _SUCCESS:
                return NvrtcOutput(ok=False, ptx="", cubin=b"", log=log or f"error: {self._text(result).decode()}")
            ptx = self._bytes("PTX", program).decode(errors="replace")
            symbols = {kernel: self._symbol(program, kernel) for kernel in kernels}
            cubin = self._bytes("CUBIN", program, closed=False)
            return NvrtcOutput(ok=True, ptx=ptx, cubin=cubin, log=log, symbols=symbols)
        finally:
            api.nvrtcDestroyProgram(ctypes.byref(program))

    def _architectures(self) -> tuple[int, ...]:
        """Return the compute capabilities that it can target, ascending."""
        count = ctypes.c_int()
        self._call("nvrtcGetNumSupportedArchs", ctypes.byref(count))
        numbers = (ctypes.c_int * count.value)()
        self._call("nvrtcGetSupportedArchs", numbers)
        return tuple(sorted(numbers))

    def _version(self) -> str:
        """Return the full version from the banner of some PTX; nvrtcVersion gives only major and minor."""
        empty = self.compile("", "version.cu", (f"--gpu-architecture=compute_{self.architectures[-1]}",), {})
        if match := re.search(r"\bV(\d+(?:\.\d+)+)", empty.ptx):
            return match[1]
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._call("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
        return f"{major.value}.{minor.value}"

    def _symbol(self, program: ctypes.c_void_p, kernel: str) -> str:
        symbol = ctypes.c_char_p()  # of the program, which frees it
        self._call("nvrtcGetLoweredName", program, from_global_scope(kernel).encode(), ctypes.byref(symbol))
        return (symbol.value or b"").decode()

    def _bytes(self, output: str, program: ctypes.c_void_p, *, closed: bool = True) -> bytes:
        """Return an output, using the functions for its size and its content.

        Args:
            output: Part of the functions' names: `PTX`.
            program: The program.
            closed: Whether the output is text with a closing NUL, which is removed.
        """
        size = ctypes.c_size_t()
        if getattr(self._api, f"nvrtcGet{output}Size")(program, ctypes.byref(size)) != _SUCCESS:
            return b""
        buffer = ctypes.create_string_buffer(size.value)
        self._call(f"nvrtcGet{output}", program, buffer)
        return buffer.raw.rstrip(b"\0") if closed else buffer.raw

    def _call(self, function: str, *arguments: object) -> None:
        result = getattr(self._api, function)(*arguments)
        if result != _SUCCESS:
            raise MissingToolError(f"{self.path}: {function} failed: {self._text(result).decode()}")


@functools.cache  # loading takes 50 ms, and a library stays loaded anyway
def load(path: Path) -> NvrtcLibrary:
    """Load a library, once per process.

    Raises:
        MissingToolError: It cannot be loaded.
    """
    return NvrtcLibrary(path)


@contextlib.contextmanager
def _own_locale() -> Iterator[None]:
    """Restore the thread's locale, which NVRTC 11.8 leaves at C; Python would then decode files as ASCII."""
    if sys.platform == "win32":  # which has no uselocale
        yield
        return
    uselocale = ctypes.CDLL(None).uselocale
    uselocale.argtypes, uselocale.restype = [ctypes.c_void_p], ctypes.c_void_p
    before = uselocale(None)  # which queries
    try:
        yield
    finally:
        uselocale(before)


def _strings(texts: Iterable[str]) -> ctypes.Array[ctypes.c_char_p]:
    listed = [text.encode() for text in texts]
    return (ctypes.c_char_p * len(listed))(*listed)
