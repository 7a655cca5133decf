"""Compilation of LLVM IR to machine code, cached in the build cache folder.

An entry is a file: `_MAGIC`, the SHA-256 of the key and the rest, the metadata (its size in 8 bytes, then text), and
the object file. A truncated, altered or renamed file is a miss. Since entries are machine code that this process would
run, a file is only used if this user owns it and no other user can write to it or its folder.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import stat
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

_MAGIC = b"labobj02"
_SUFFIX = ".object"
_MOST_LOADED = 32
_OPTIMISATION = 1
"""LLVM's code generation level; higher ones take longer and gain little: registers stay in memory."""

_QUICK_OPTIMISATION = 0
"""The level for a few blocks: for a GEMM, code generation takes half as long, and a block a fifth longer."""


@dataclass(frozen=True, eq=False)
class NativeCode:
    """Machine code loaded in this process.

    Attributes:
        run: ``run(context, first, stop)``; releases the GIL while it runs.
        about: Its metadata.
        engine: The owner of the code's memory.
    """

    run: Any
    about: str
    engine: Any


_loaded: dict[str, NativeCode] = {}


@lru_cache(maxsize=1)
def _target() -> tuple[str, str]:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def _machine(*, quick: bool) -> Any:  # noqa: ANN401  llvmlite has no types
    cpu, features = _target()
    target = llvm.Target.from_default_triple()
    level = _QUICK_OPTIMISATION if quick else _OPTIMISATION
    return target.create_target_machine(cpu=cpu, features=features, opt=level, codemodel="jitdefault", jit=True)


def _parse(text: str) -> Any:  # noqa: ANN401  llvmlite has no types
    return llvm.parse_assembly(text)


def code_key(facts: str) -> str:
    """Return the SHA-256, in hex, of everything that determines machine code: some facts, LLVM and this CPU."""
    return hashlib.sha256(
        "\n".join(
            (str(llvm.llvm_version_info), *_target(), str(_OPTIMISATION), str(_QUICK_OPTIMISATION), facts)
        ).encode()
    ).hexdigest()


def native(key: str, folder: Path | None, write: Callable[[], tuple[str, str]], *, quick: bool = False) -> NativeCode:
    """Return the machine code of a module, from the cache if possible.

    Args:
        key: The `code_key` of everything that determines the module.
        folder: The cache folder; None for no cache.
        write: Returns LLVM IR that defines `run`, and its metadata.
        quick: Prefer fast code generation to fast code; the key must include this choice.
    """
    loaded = _loaded.get(key)
    if loaded is None:
        loaded = _loaded[key] = _native(key, folder, write, quick=quick)
        if len(_loaded) > _MOST_LOADED:
            del _loaded[next(iter(_loaded))]
    return loaded


def forget() -> None:
    """Drop the machine code this process has loaded."""
    _loaded.clear()


def is_kept(key: str, folder: Path | None) -> bool:
    """Return whether machine code is loaded or cached."""
    return key in _loaded or (folder is not None and _get(folder / f"{key}{_SUFFIX}", key) is not None)


def _native(key: str, folder: Path | None, write: Callable[[], tuple[str, str]], *, quick: bool) -> NativeCode:
    content = None if folder is None else _get(folder / f"{key}{_SUFFIX}", key)
    machine = _machine(quick=quick)
    if content is None:
        text, about = write()
        encoded = about.encode()
        content = len(encoded).to_bytes(8, "little") + encoded + bytes(machine.emit_object(_parse(text)))
        if folder is not None:
            _put(folder / f"{key}{_SUFFIX}", key, content)
    start = 8 + int.from_bytes(content[:8], "little")
    engine = llvm.create_mcjit_compiler(_parse(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(content[start:]))
    engine.finalize_object()
    prototype = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    return NativeCode(prototype(engine.get_function_address("run")), content[8:start].decode(), engine)


def _digest(key: str, content: bytes) -> bytes:
    return hashlib.sha256(key.encode() + content).digest()


def _get(path: Path, key: str) -> bytes | None:
    """Return an entry's content; None if it is missing or not trustworthy."""
    try:
        with path.open("rb") as stream:
            if not (_is_ours(os.fstat(stream.fileno())) and _is_ours(path.parent.stat())):
                return None
            raw = stream.read()
    except OSError:
        return None
    start = len(_MAGIC) + hashlib.sha256().digest_size
    content = raw[start:]
    if not raw.startswith(_MAGIC) or raw[len(_MAGIC) : start] != _digest(key, content):
        return None
    return content


def _is_ours(status: os.stat_result) -> bool:
    if not hasattr(os, "getuid"):
        return True
    return status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _put(path: Path, key: str, content: bytes) -> None:
    """Write an object file to the cache if the folder is writable."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(_MAGIC + _digest(key, content) + content)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError:
        return
