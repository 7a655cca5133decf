"""Files that a user names: regular ones are read, up to a size, and others written atomically."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from lab.base import interrupts
from lab.base.errors import CompileError, Location, StoreError, UserError, did_you_mean
from lab.base.folder import Folder, kind_of

_MOST_SIBLINGS = 20


def write_atomically(path: Path, content: str | bytes | Iterator[str | bytes]) -> None:
    """Write a file whose folder is trusted; see `Folder.write`.

    Raises:
        OSError: The file cannot be written; the error names it. The old content stays, and no temporary file is left.
    """
    Folder(path.parent).write(path.name, content)


@contextlib.contextmanager
def scratch(prefix: str) -> Iterator[Path]:
    """Make a folder for the files of a tool, and remove it on leaving.

    That the disk is full is the machine's fault and not that of what is compiled: it must not become the failure of a
    variant, which a run that goes on would keep.

    Args:
        prefix: What its name begins with.

    Raises:
        StoreError: It cannot be made or written, by this process or by a tool that says so in its log.
    """
    try:
        with tempfile.TemporaryDirectory(prefix=prefix) as name, interrupts.removing(name):
            yield Path(name)
    except OSError as error:
        raise _full(error.strerror or str(error)) from error
    except CompileError as error:
        if (full := os.strerror(errno.ENOSPC)) in error.log:
            raise _full(full) from error
        raise


def _full(reason: str) -> StoreError:
    return StoreError(f"temporary files cannot be written: {reason}; TMPDIR names a folder that has room for them")


def read_regular(path: Path, most_bytes: int, what: str = "the file") -> bytes:
    """Read a file that a user named. Every such file is read here.

    A FIFO or a device is refused without waiting for its content, and a file that grows is read up to its limit.

    Args:
        path: The file.
        most_bytes: Its largest size in bytes.
        what: What the file is, for messages: `the template`.

    Raises:
        UserError: The file is missing, unreadable, larger, or not a regular file; the error names it.
    """
    try:
        # a FIFO is opened without waiting for a writer, and a terminal does not become this process's own
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):  # a folder cannot even become a stream
            os.close(handle)
            raise UserError(
                f"{what} cannot be read",
                code="unreadable",
                at=Location(path),
                found=kind_of(mode),
                accepted="a regular file",
            )
        with os.fdopen(handle, "rb") as stream:
            content = stream.read(most_bytes + 1)
    except FileNotFoundError:
        raise _missing(path) from None
    except OSError as error:
        raise UserError(f"{what} cannot be read: {error.strerror}", code="unreadable", at=Location(path)) from error
    except ValueError as error:  # a name with a NUL, or with a character that the file system cannot spell
        raise UserError(
            f"{what} cannot be read: its name is not one of a file", code="unreadable", at=Location(repr(path))
        ) from error
    if len(content) > most_bytes:
        raise UserError(
            f"{what} is too large", code="out-of-range", at=Location(path), accepted=f"at most {most_bytes} bytes"
        )
    return content


def is_below(path: Path, roots: Iterable[Path]) -> bool:
    """Return whether a path is one of some folders or below one of them, once symbolic links are followed."""
    real = path.resolve()
    return any(real.is_relative_to(root.resolve()) for root in roots)


def within(name: str, folder: Path, *, at: Location, key: str, roots: Sequence[Path] = ()) -> Path:
    """Return the file that a user's file names, which must be in or below a folder once links are followed.

    Args:
        name: The name, relative to `folder`.
        folder: The folder of the user's file.
        at: Where the name stands.
        key: Key that holds it.
        roots: More folders that the file may be in.

    Raises:
        UserError: The name leads elsewhere.
    """
    try:
        path = (folder / name).resolve()
        if is_below(path, (folder, *roots)):
            return path
    except (OSError, ValueError, RuntimeError):  # a NUL, links in a circle
        pass
    accepted = f"a file in or below {', '.join(str(root) for root in (folder, *roots))}"
    found = with_target(name, folder)
    raise UserError(
        "the file is outside of the experiment's folder", code="refused", at=at, key=key, found=found, accepted=accepted
    )


def with_target(name: str, folder: Path) -> str:
    """Return a name, and where it leads if it is a symbolic link."""
    try:
        return f"{name}, a link to {(folder / name).readlink()}"
    except (OSError, ValueError):
        return name


def _missing(path: Path) -> UserError:
    folder = path.parent
    near = folder.glob(f"*{path.suffix}") if folder.is_dir() else ()
    siblings = sorted(found.name for found in near if found.exists())  # and no links to what is gone
    return UserError(
        "no such file",
        code="missing-file",
        at=Location(path),
        accepted=siblings[:_MOST_SIBLINGS] or None,
        suggestion=did_you_mean(path.name, siblings),
    )


def check_below(file: Path, roots: Iterable[Path]) -> None:
    """Check that a file lies below one of some folders once symbolic links are followed.

    Raises:
        UserError: It lies elsewhere.
    """
    roots = tuple(roots)
    if not is_below(file, roots):
        raise UserError(
            "the file lies outside the folders in which it is looked for",
            code="refused",
            at=Location(file),
            found=str(file.resolve()),
            accepted=f"a file below {', '.join(map(str, roots))}",
        )
