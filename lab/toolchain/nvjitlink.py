"""Call libnvJitLink through ctypes to assemble PTX with NVIDIA's ptxas, without a toolkit or a driver.

It is written by hand, as for NVRTC: `ptx==12.9` and `ptx==13.5` may be compared in one process, and NVIDIA's bindings
load one nvJitLink, of their own choice.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.base.errors import MissingToolError

_SUCCESS = 0  # NVJITLINK_SUCCESS
_PTX = 2  # NVJITLINK_INPUT_PTX


@dataclass(frozen=True, slots=True)
class LinkerOutput:
    """nvJitLink's output for one PTX module.

    Attributes:
        cubin: The ELF image; empty if it rejected the module.
        log: Everything it printed.
    """

    cubin: bytes
    log: str


class LinkerLibrary:
    """One libnvJitLink, made by `load`.

    Attributes:
        path: The library.
        version: Its release, such as `13.5`.
    """

    def __init__(self, path: Path) -> None:
        """Load the library.

        Raises:
            MissingToolError: It cannot be loaded, or is not an nvJitLink of 12.0 or later.
        """
        self.path = path
        try:
            self._api = ctypes.CDLL(str(path))
            major, minor = ctypes.c_uint(), ctypes.c_uint()
            self._api.nvJitLinkVersion(ctypes.byref(major), ctypes.byref(minor))
        except (OSError, AttributeError) as error:  # ctypes raises AttributeError for a function that the library lacks
            raise MissingToolError(f"cannot load nvJitLink from {path}: {error}") from error
        self.version = f"{major.value}.{minor.value}"

    def assemble(self, ptx: str, name: str, options: Sequence[str]) -> LinkerOutput:
        """Assemble one PTX module.

        Args:
            ptx: The module.
            name: Its name in messages.
            options: nvJitLink's options: `-arch=sm_90`, `-Xptxas=-v`.
        """
        api, linker, text = self._api, ctypes.c_void_p(), ptx.encode()
        listed = [option.encode() for option in options]
        created = api.nvJitLinkCreate(ctypes.byref(linker), len(listed), (ctypes.c_char_p * len(listed))(*listed))
        try:
            ok = created == _SUCCESS
            # the length includes the closing NUL that follows Python's bytes
            ok = (
                ok
                and api.nvJitLinkAddData(linker, _PTX, text, ctypes.c_size_t(len(text) + 1), name.encode()) == _SUCCESS
            )
            ok = ok and api.nvJitLinkComplete(linker) == _SUCCESS
            log = self._bytes("ErrorLog", linker).rstrip(b"\0") + self._bytes("InfoLog", linker).rstrip(b"\0")
            cubin = self._bytes("LinkedCubin", linker) if ok else b""
            return LinkerOutput(
                cubin, log.decode(errors="replace") or f"error: nvJitLink failed ({created})" * (not ok)
            )
        finally:
            if linker:
                api.nvJitLinkDestroy(ctypes.byref(linker))

    def _bytes(self, output: str, linker: ctypes.c_void_p) -> bytes:
        """Return an output, using the functions for its size and its content."""
        size = ctypes.c_size_t()
        if not linker or getattr(self._api, f"nvJitLinkGet{output}Size")(linker, ctypes.byref(size)) != _SUCCESS:
            return b""
        buffer = ctypes.create_string_buffer(size.value)
        getattr(self._api, f"nvJitLinkGet{output}")(linker, buffer)
        return buffer.raw


@functools.cache
def load(path: Path) -> LinkerLibrary:
    """Load a library, once per process.

    Raises:
        MissingToolError: It cannot be loaded.
    """
    return LinkerLibrary(path)
