"""A cache of builds and other expensive results, keyed by everything that determines them.

Each entry is a file: `_MAGIC`, the SHA-256 of what follows, and zlib-compressed JSON that repeats the key. A file
that is truncated, altered or renamed fails one of these checks and is a miss, which the next `put` replaces.
Files appear whole (`os.replace`), so processes need no lock. A cache that cannot be written is left alone, with one
warning.

A `put` does not look at other entries. It appends to a journal, whose size says how much was written since the cache
was last pruned, and only when that reaches a sixteenth of the limit does it list the folder and prune. The cost of a
`put` does not depend on the number of entries, and that of pruning is spread over many.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import json
import logging
import os
import tempfile
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import platformdirs

from lab.isa.sass.lines import LineTable
from lab.toolchain.base import Build, CompiledLaunch, CompileRequest, Disassembly, Resources, Toolchain

SCHEMA = 8
"""Incremented when the shape of an entry, the output of a toolchain, or the layout of listings changes."""
MAX_BYTES = 2 * 1024**3
JOURNAL = "written"
"""File beside the entries, with one byte per started `_BLOCK` written since the last pruning."""

_MAGIC = b"labcache"
_SUFFIX = ".entry"
_BLOCK = 4096
"""Bytes that a file system allocates at once, on most systems."""
_SLACK = 16
"""Divisor of the limit: pruning starts once that part was written, and leaves the same part free."""
_LOG = logging.getLogger(__name__)
_warned: set[Path] = set()


def default_folder() -> Path:
    """Return `$LAB_CACHE_DIR`, or the user's cache directory on this system."""
    configured = os.environ.get("LAB_CACHE_DIR")
    return Path(configured) if configured else Path(platformdirs.user_cache_dir("lab", appauthor=False))


def cache_key(toolchain: Toolchain, request: CompileRequest, disassembler: str) -> str:
    """Return the SHA-256, in hex, of everything that determines a build and its disassembly.

    Args:
        toolchain: The compiler.
        request: What it compiles.
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
        *([sorted(request.included)] if request.included else []),  # keeps the keys of sources without any unchanged
        *([{"kernels": request.kernels}] if request.kernels else []),
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Cache:
    """A folder of entries, which any number of processes may share. Picklable.

    Attributes:
        folder: Where the entries are. The first `put` creates it.
        max_bytes: Limit of the entries' total size. The least recently used entries are removed to keep it.
    """

    folder: Path
    max_bytes: int = MAX_BYTES

    def get(self, key: str) -> tuple[Build, Disassembly] | None:
        """Return the build of a key, or None if there is none or its entry is damaged."""
        fields = self.fields(key)
        return None if fields is None else _build_of(fields)

    def put(self, key: str, build: Build, disassembly: Disassembly) -> None:
        """Store a build; see `keep`."""
        self.keep(key, _fields_of(build, disassembly))

    def fields(self, key: str) -> dict[str, Any] | None:
        """Return the fields that `keep` stored under a key, or None if there are none or the entry is damaged."""
        path = self._path(key)
        try:
            content = path.read_bytes()
        except OSError:
            return None
        fields = _decode(content, key)
        if fields is not None:
            with contextlib.suppress(OSError):  # a read-only cache is still read
                os.utime(path)  # `prune` removes the least recently used first
        return fields

    def keep(self, key: str, fields: Mapping[str, Any]) -> None:
        """Store an entry, replacing the key's old one; prune the cache if enough was written since last time.

        Args:
            key: SHA-256, in hex, of everything that determines the entry.
            fields: Values that JSON can represent.
        """
        content = _encode(key, fields)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            _write(self._path(key), content)
            free = self.max_bytes // _SLACK
            if self._note(len(content)) > free:
                os.truncate(self.folder / JOURNAL, 0)
                self.prune(self.max_bytes - free)
        except OSError as error:
            if self.folder not in _warned:
                _warned.add(self.folder)
                _LOG.warning("nothing is cached: cannot write to %s (%s)", self.folder, error.strerror or error)

    def prune(self, max_bytes: int) -> None:
        """Remove the least recently used entries until the others take at most `max_bytes`.

        Raises:
            OSError: The folder cannot be listed.
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

    def _note(self, size: int) -> int:
        """Add the size of an entry to the journal; return the bytes written since the last pruning, in whole blocks."""
        with (self.folder / JOURNAL).open("ab") as journal:  # appending is atomic: no count of another process is lost
            journal.write(b"." * -(-size // _BLOCK))
            return _BLOCK * journal.tell()

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}{_SUFFIX}"


def _encode(key: str, fields: Mapping[str, Any]) -> bytes:
    body = zlib.compress(json.dumps({"key": key, **fields}).encode(), level=1)
    return _MAGIC + hashlib.sha256(body).digest() + body


def _decode(content: bytes, key: str) -> dict[str, Any] | None:
    start = len(_MAGIC) + hashlib.sha256().digest_size
    digest, body = content[len(_MAGIC) : start], content[start:]
    if not content.startswith(_MAGIC) or hashlib.sha256(body).digest() != digest:
        return None
    try:
        value = json.loads(zlib.decompress(body))
    except (zlib.error, ValueError):
        return None
    return value if isinstance(value, dict) and value.pop("key", None) == key else None


def _fields_of(build: Build, disassembly: Disassembly) -> dict[str, Any]:
    rows = {
        function: [[offset, *place] for offset, place in starts.items()]
        for function, starts in disassembly.lines.rows.items()
    }
    listed = {
        "text": disassembly.text,
        "files": disassembly.lines.files,
        "rows": rows,
        "version": disassembly.version,
    }
    return {"build": {**asdict(build), "cubin": base64.b64encode(build.cubin).decode()}, "disassembly": listed}


def _build_of(value: dict[str, Any]) -> tuple[Build, Disassembly] | None:
    try:
        fields = value["build"]
        fields["cubin"] = base64.b64decode(fields["cubin"])
        fields["resources"] = {name: Resources(**used) for name, used in fields["resources"].items()}
        launch = fields["launch"]
        launch |= {name: tuple(launch[name]) for name in ("absent_arguments", "grid_syncs")}  # JSON has lists
        fields["launch"] = CompiledLaunch(**launch)
        return Build(**fields), _disassembly(value["disassembly"])
    except (ValueError, KeyError, TypeError, AttributeError, binascii.Error):
        return None  # undamaged, but of another shape: another version of this program wrote it


def _disassembly(value: dict[str, Any]) -> Disassembly:
    rows = {
        function: {offset: (file, line) for offset, file, line in starts} for function, starts in value["rows"].items()
    }
    return Disassembly(value["text"], LineTable(tuple(value["files"]), rows), value["version"])


def _write(path: Path, content: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
