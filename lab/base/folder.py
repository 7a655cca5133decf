"""Access to untrusted folders without following symbolic links.

Every name is opened relative to a descriptor of its parent folder. The path of the outermost folder comes from the
user and may contain links. Below it, links, FIFOs, devices and oversized files are rejected, and a file that is
written replaces whatever has its name.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Final

from lab.base.errors import StoreError
from lab.base.spelling import spelled

MOST_BYTES: Final = 1 << 26
"""Largest file that is read, in bytes."""

_NAME: Final = re.compile(r"(?!\.{1,2}$)[^/\x00-\x1f\x7f-\x9f]+")
_MOST_NAME: Final = 255
"""Longest name that Linux accepts, in bytes."""

_KINDS: Final = (
    (stat.S_ISREG, "a regular file"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# a FIFO is opened without waiting for a writer, and a terminal does not become this process's own
_SAFELY: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def kind_of(mode: int) -> str:
    """Return the kind of a file, given its mode: `a FIFO`."""
    return next((kind for is_kind, kind in _KINDS if is_kind(mode)), "something else")


def is_name(text: object) -> bool:
    """Return whether a value is a valid file name: a string, one path component, without control characters."""
    try:
        return isinstance(text, str) and _NAME.fullmatch(text) is not None and len(os.fsencode(text)) <= _MOST_NAME
    except UnicodeEncodeError:  # surrogates that stand for no byte
        return False


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder whose content is not trusted.

    Attributes:
        root: The outermost folder, whose path is trusted.
        names: The path components from it to this folder.
    """

    root: Path
    names: tuple[str, ...] = ()

    def __truediv__(self, name: str) -> Folder:
        """Return a subfolder.

        Raises:
            StoreError: The name is not valid.
        """
        return replace(self, names=(*self.names, self._checked(name)))

    @property
    def path(self) -> Path:
        """The path, for messages."""
        return self.root.joinpath(*self.names)

    def read(self, name: str, most_bytes: int = MOST_BYTES) -> bytes | None:
        """Return a file's content, or None if it does not exist.

        Raises:
            StoreError: It is not a regular file, is larger, or cannot be read.
        """
        try:
            handle = self.open(name, os.O_RDONLY)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(f"{self.path / name} cannot be read: {error.strerror}") from error
        with os.fdopen(handle, "rb") as stream:
            size = os.fstat(handle).st_size
            content = stream.read(most_bytes + 1) if size <= most_bytes else b""
        if max(size, len(content)) > most_bytes:
            actual_bytes = max(size, len(content))
            raise StoreError(f"{self.path / name}: expected at most {most_bytes} bytes, found {actual_bytes}")
        return content

    def read_text(self, name: str) -> str | None:
        """Return a file's text, with replacement characters for invalid UTF-8; None if it does not exist.

        Raises:
            StoreError: It is not a regular file, is too large, or cannot be read.
        """
        content = self.read(name)
        if content is None:
            return None
        return content.decode("utf-8", errors="replace").replace("\r\n", "\n").replace("\r", "\n")

    def size(self, name: str) -> int | None:
        """Return a file's size in bytes; None if there is no regular file of this name."""
        with contextlib.suppress(FileNotFoundError), self._handle() as folder:
            state = os.stat(self._checked(name), dir_fd=folder, follow_symlinks=False)
            return state.st_size if stat.S_ISREG(state.st_mode) else None
        return None

    def files(self) -> frozenset[str]:
        """Return the names of the regular files; the empty set if the folder does not exist."""
        with contextlib.suppress(FileNotFoundError), self._handle() as folder, os.scandir(folder) as entries:
            return frozenset(entry.name for entry in entries if entry.is_file(follow_symlinks=False))
        return frozenset()

    def folders(self) -> frozenset[str]:
        """Return the names of the subfolders; the empty set if the folder does not exist."""
        with contextlib.suppress(FileNotFoundError), self._handle() as folder, os.scandir(folder) as entries:
            return frozenset(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        return frozenset()

    def open(self, name: str, flags: int) -> int:
        """Open a file and return its descriptor.

        Args:
            name: The file.
            flags: Flags of `os.open`.

        Raises:
            StoreError: It is not a regular file.
            OSError: It cannot be opened.
        """
        self.check(name)
        with self._handle() as folder:
            handle = os.open(name, flags | _SAFELY, 0o644, dir_fd=folder)
        if not stat.S_ISREG(mode := os.fstat(handle).st_mode):  # replaced since the check
            os.close(handle)
            raise _refusal(self.path / name, "a regular file", mode)
        return handle

    def check(self, name: str) -> bool:
        """Check that a file, if it exists, is a regular one; return whether it exists.

        Raises:
            StoreError: It is something else.
        """
        with contextlib.suppress(FileNotFoundError), self._handle() as folder:
            mode = os.stat(self._checked(name), dir_fd=folder, follow_symlinks=False).st_mode
            if not stat.S_ISREG(mode):
                raise _refusal(self.path / name, "a regular file", mode)
            return True
        return False

    def write(self, name: str, content: str | bytes | Iterator[str | bytes]) -> None:
        """Write a file atomically: a reader sees either the old content or the new.

        Args:
            name: The file. Anything of this name is replaced, and a link is not followed.
            content: The whole content, or an iterator over chunks of it, to save memory. Text is encoded as UTF-8.

        Raises:
            OSError: The file cannot be written; the error names it. The old content stays, and no temporary file is
                left.
        """
        try:
            self._write(self._checked(name), content)
        except OSError as error:  # it names the temporary file or, on a full disk, none
            raise OSError(error.errno, error.strerror or str(error), str(self.path / name)) from error

    def _write(self, name: str, content: str | bytes | Iterator[str | bytes]) -> None:
        with self._handle() as folder:
            temporary = f".{secrets.token_hex(8)}.part"
            created = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFELY, 0o600, dir_fd=folder)
            try:
                with os.fdopen(created, "wb") as stream:
                    parts = (content,) if isinstance(content, str | bytes) else content
                    stream.writelines(spelled(chunk).encode() if isinstance(chunk, str) else chunk for chunk in parts)
                    os.fchmod(created, 0o644)
                os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=folder)
                raise

    def write_below(self, path: str, content: str | bytes | Iterator[str | bytes]) -> None:
        """Write a file at a relative path, creating the folders on the way; see `write`."""
        *names, name = PurePosixPath(path).parts
        folder = self
        for ancestor in names:
            folder /= ancestor
        folder.make()
        folder.write(name, content)

    def holds(self, name: str, parts: Iterable[bytes]) -> bool:
        """Return whether a file has exactly this content.

        Raises:
            StoreError: It is not a regular file.
        """
        try:
            with os.fdopen(self.open(name, os.O_RDONLY), "rb") as stream:
                return all(stream.read(len(chunk)) == chunk for chunk in parts) and not stream.read(1)
        except FileNotFoundError:
            return False

    def make(self) -> Path:
        """Create the folder and its missing parents, and return its path.

        Raises:
            StoreError: One of them exists and is not a folder.
            OSError: It cannot be made.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        for depth in range(len(self.names)):
            with self._handle(depth) as folder, contextlib.suppress(FileExistsError):
                os.mkdir(self.names[depth], dir_fd=folder)
        with self._handle():
            return self.path

    def remove(self, name: str) -> None:
        """Remove a file, a link, or a folder with its content; ignore a missing one.

        Raises:
            OSError: It cannot be removed.
        """
        with contextlib.suppress(FileNotFoundError), self._handle() as folder:
            if stat.S_ISDIR(os.stat(self._checked(name), dir_fd=folder, follow_symlinks=False).st_mode):
                shutil.rmtree(name, dir_fd=folder)
            else:
                os.unlink(name, dir_fd=folder)

    @contextlib.contextmanager
    def _handle(self, depth: int | None = None) -> Iterator[int]:
        """Open the folder, or its ancestor at a depth below the root.

        Raises:
            StoreError: A path component is not a folder.
            OSError: A path component is missing or cannot be opened.
        """
        handle = os.open(self.root, _FOLDER)
        try:
            for place, name in enumerate(self.names[:depth]):
                try:
                    inner = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=handle)
                except OSError as error:
                    if error.errno not in (errno.ENOTDIR, errno.ELOOP):
                        raise
                    mode = os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode
                    raise _refusal(self.root.joinpath(*self.names[:place], name), "a folder", mode) from None
                handle, outer = inner, handle
                os.close(outer)
            yield handle
        finally:
            os.close(handle)

    def _checked(self, name: str) -> str:
        if not is_name(name):
            raise StoreError(f"{self.path}: {str(name)[:300]!r} is not a valid name of a file or folder")
        return name


def _refusal(path: Path, expected: str, mode: int) -> StoreError:
    return StoreError(f"{path}: expected {expected}, found {kind_of(mode)}")
