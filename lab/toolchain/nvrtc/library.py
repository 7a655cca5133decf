"""libnvrtc, called through ctypes: one library a path, any number of versions in one process.

NVIDIA's own bindings load one NVRTC of one CUDA major version. Here a comparison of compilers needs 11.8, 12.9 and 13.x
beside each other, and the nine functions that it takes have kept their signatures since 11.2 (NVRTC documentation,
"User Interface"). The dynamic loader tells libraries by their file when they are opened by path, also where two
versions share a soname.
"""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.base.errors import MissingToolError

_SUCCESS = 0  # NVRTC_SUCCESS


@dataclass(frozen=True, slots=True)
class NvrtcOutput:
    """What became of one program.

    Attributes:
        ok: It compiled.
        ptx: PTX text; empty where it did not.
        cubin: The ELF image; empty for a virtual architecture.
        log: Everything the compiler printed.
    """

    ok: bool
    ptx: str
    cubin: bytes
    log: str


class NvrtcLibrary:
    """One libnvrtc. Made by `load`."""

    def __init__(self, path: Path) -> None:
        """Load it.

        Raises:
            MissingToolError: it cannot be loaded, or is no NVRTC of 11.2 or later.
        """
        self.path = path
        try:
            self._api = ctypes.CDLL(str(path))
            self._text = self._api.nvrtcGetErrorString
            self._text.argtypes, self._text.restype = [ctypes.c_int], ctypes.c_char_p
            self.architectures = self._architectures()
            self.version = self._version()
        except (OSError, AttributeError) as error:  # a function that is not there is an attribute that is not
            raise MissingToolError(f"NVRTC cannot be loaded from {path}: {error}") from error

    def compile(self, source: str, name: str, options: Sequence[str], included: Mapping[str, str]) -> NvrtcOutput:
        """Compile one program.

        Args:
            source: CUDA C++.
            name: Its name in messages and line tables.
            options: NVRTC's options.
            included: Headers by the name that the source includes.

        Raises:
            MissingToolError: NVRTC itself fails.
        """
        api, program = self._api, ctypes.c_void_p()
        headers = _strings(included.values()), _strings(included)
        self._call("nvrtcCreateProgram", ctypes.byref(program), source.encode(), name.encode(), len(included), *headers)
        try:
            result = api.nvrtcCompileProgram(program, len(options), _strings(options))
            log = self._bytes("ProgramLog", program).decode(errors="replace")
            if result != _SUCCESS:
                return NvrtcOutput(ok=False, ptx="", cubin=b"", log=log or f"error: {self._text(result).decode()}")
            ptx = self._bytes("PTX", program).decode(errors="replace")
            return NvrtcOutput(ok=True, ptx=ptx, cubin=self._bytes("CUBIN", program, closed=False), log=log)
        finally:
            api.nvrtcDestroyProgram(ctypes.byref(program))

    def _architectures(self) -> tuple[int, ...]:
        """Compute capabilities that it can target, ascending."""
        count = ctypes.c_int()
        self._call("nvrtcGetNumSupportedArchs", ctypes.byref(count))
        numbers = (ctypes.c_int * count.value)()
        self._call("nvrtcGetSupportedArchs", numbers)
        return tuple(sorted(numbers))

    def _version(self) -> str:
        """The release in full: nvrtcVersion knows major and minor alone, the banner of any PTX has it all."""
        empty = self.compile("", "version.cu", (f"--gpu-architecture=compute_{self.architectures[-1]}",), {})
        if match := re.search(r"\bV(\d+(?:\.\d+)+)", empty.ptx):
            return match[1]
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._call("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
        return f"{major.value}.{minor.value}"

    def _bytes(self, what: str, program: ctypes.c_void_p, *, closed: bool = True) -> bytes:
        """What a pair of functions, for the size and for the content, gives; of a text without its closing NUL."""
        size = ctypes.c_size_t()
        if getattr(self._api, f"nvrtcGet{what}Size")(program, ctypes.byref(size)) != _SUCCESS:
            return b""
        buffer = ctypes.create_string_buffer(size.value)
        self._call(f"nvrtcGet{what}", program, buffer)
        return buffer.raw.rstrip(b"\0") if closed else buffer.raw

    def _call(self, function: str, *arguments: object) -> None:
        result = getattr(self._api, function)(*arguments)
        if result != _SUCCESS:
            raise MissingToolError(f"{self.path}: {function} answers {self._text(result).decode()}")


@functools.cache  # loading takes 50 ms; what is loaded stays loaded anyway
def load(path: Path) -> NvrtcLibrary:
    """The library of a path, loaded once in a process.

    Raises:
        MissingToolError: it cannot be loaded.
    """
    return NvrtcLibrary(path)


def _strings(texts: Iterable[str]) -> ctypes.Array[ctypes.c_char_p]:
    listed = [text.encode() for text in texts]
    return (ctypes.c_char_p * len(listed))(*listed)
