"""A cache of builds, addressed by everything that decides them.

One file an entry: `MAGIC`, the SHA-256 of what follows, and zlib-compressed JSON that repeats the key. A file
that is truncated, altered or renamed fails one of the three and is a miss, which the next `put` replaces.
Files appear whole (`os.replace`), so that processes need no lock. A cache that cannot be written is left
alone, with one warning.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import json
import logging
import os
import re
import tempfile
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path

import platformdirs

from lab.toolchain.base import Build, CompileRequest, Disassembly, Resources, Toolchain

SCHEMA = 2
"""Raised when an entry's shape, what a toolchain makes of a request, or the layout of listings changes."""
MAX_BYTES = 2 * 1024**3

_MAGIC = b"labcache"
_SUFFIX = ".entry"
_LOG = logging.getLogger(__name__)
_warned: set[Path] = set()

# What a key cannot see: files that only the compiler opens.
_READS_FILES = re.compile(r"^[ \t]*#[ \t]*(?:include|embed|import)\b[ \t]*(?:[^<\s]|<[ \t]*/)", re.MULTILINE)
_FILE_OPTIONS = re.compile(
    r"-I|--include-path|-isystem|--system-include|-idirafter|-include$|--pre-include|-optf|--options-file"
    r"|-(-)?(use-pch|create-pch|pch)|-ccbin|--compiler-bindir"
)


def default_folder() -> Path:
    """`$LAB_CACHE_DIR`, else the user's cache directory of this system."""
    named = os.environ.get("LAB_CACHE_DIR")
    return Path(named) if named else Path(platformdirs.user_cache_dir("lab", appauthor=False))


def cacheable(request: CompileRequest) -> bool:
    """Whether the key knows all that decides the build: no file of the user's is read while compiling."""
    return not _READS_FILES.search(request.source) and not any(map(_FILE_OPTIONS.match, request.options))


def cache_key(toolchain: Toolchain, request: CompileRequest, disassembler: str) -> str:
    """SHA-256, in hex, over everything that decides a build and its disassembly.

    Args:
        toolchain: The compiler.
        request: What it is asked.
        disassembler: Version of the disassembler.
    """
    facts = [
        SCHEMA,
        toolchain.name,
        toolchain.version,
        toolchain.identity,
        request.arch,
        list(request.options),
        request.source,
        request.name,
        disassembler,
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Cache:
    """A folder of builds. Any number of processes may share it; picklable.

    Attributes:
        folder: Where the entries are. Made by the first `put`.
        max_bytes: When the entries grow past it, the least recently used go.
    """

    folder: Path
    max_bytes: int = MAX_BYTES

    def get(self, key: str) -> tuple[Build, Disassembly] | None:
        """The entry of a key, or None where there is none that is whole."""
        path = self._path(key)
        try:
            content = path.read_bytes()
        except OSError:
            return None
        entry = _decode(content, key)
        if entry is not None:
            with contextlib.suppress(OSError):  # a read-only cache is still read
                os.utime(path)  # used just now: `prune` takes others first
        return entry

    def put(self, key: str, build: Build, disassembly: Disassembly) -> None:
        """Store an entry, replacing what the key had."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            _write(self._path(key), _encode(key, build, disassembly))
            self.prune(self.max_bytes)
        except OSError as error:
            if self.folder not in _warned:
                _warned.add(self.folder)
                _LOG.warning("builds are not cached: %s cannot be written (%s)", self.folder, error.strerror or error)

    def prune(self, max_bytes: int) -> None:
        """Remove the least recently used entries until the rest is within `max_bytes`.

        Raises:
            OSError: the folder cannot be listed.
        """
        entries = []
        with os.scandir(self.folder) as listing:
            for item in listing:
                if item.name.endswith(_SUFFIX):
                    try:
                        status = item.stat()
                    except FileNotFoundError:
                        continue  # another process pruned it
                    entries.append((status.st_mtime_ns, status.st_size, item.path))
        excess = sum(size for _, size, _ in entries) - max_bytes
        for _, size, path in sorted(entries):
            if excess <= 0:
                return
            Path(path).unlink(missing_ok=True)
            excess -= size

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}{_SUFFIX}"


def _encode(key: str, build: Build, disassembly: Disassembly) -> bytes:
    fields = asdict(build)
    fields["cubin"] = base64.b64encode(build.cubin).decode()
    text = json.dumps({"key": key, "build": fields, "disassembly": asdict(disassembly)})
    body = zlib.compress(text.encode(), level=1)
    return _MAGIC + hashlib.sha256(body).digest() + body


def _decode(content: bytes, key: str) -> tuple[Build, Disassembly] | None:
    start = len(_MAGIC) + hashlib.sha256().digest_size
    digest, body = content[len(_MAGIC) : start], content[start:]
    if not content.startswith(_MAGIC) or hashlib.sha256(body).digest() != digest:
        return None
    try:
        value = json.loads(zlib.decompress(body))
        if value["key"] != key:
            return None
        fields = value["build"]
        fields["cubin"] = base64.b64decode(fields["cubin"])
        fields["resources"] = {name: Resources(**used) for name, used in fields["resources"].items()}
        return Build(**fields), Disassembly(**value["disassembly"])
    except (zlib.error, ValueError, KeyError, TypeError, binascii.Error):
        return None  # whole, but of another shape: written by another version of this program


def _write(path: Path, content: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
