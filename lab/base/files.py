"""Files named by a user: regular files are read up to a size limit, and files are written atomically."""

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
    """Write a file in a trusted folder atomically; see `Folder.write`.

    Raises:
        OSError: The file cannot be written; the error names it. The old content stays, and no temporary file is left.
    """
    Folder(path.parent).write(path.name, content)


@contextlib.contextmanager
def scratch(prefix: str) -> Iterator[Path]:
    """Make a temporary folder for the files of a tool, and remove it on exit.

    A full disk is the machine's fault, not the variant's: it must not be recorded as a failure of the variant, which a
    resumed run would keep.

    Args:
        prefix: Beginning of its name.

    Raises:
        StoreError: This process, or a tool according to its log, cannot create or write files in it.
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
    return StoreError(f"temporary files cannot be written: {reason}; set TMPDIR to a folder with free space")


def read_regular(path: Path, most_bytes: int, label: str = "the file") -> bytes:
    """Read a file named by a user. Every such file is read here.

    A FIFO or a device is rejected without waiting for its content, and a growing file is read up to the limit.

    Args:
        path: The file.
        most_bytes: Its largest size in bytes.
        label: What the file is, for messages: `the template`.

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
                f"{label} cannot be read",
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
        raise UserError(f"{label} cannot be read: {error.strerror}", code="unreadable", at=Location(path)) from error
    except ValueError as error:  # a name with a NUL, or with a character that the file system cannot spell
        raise UserError(
            f"{label} cannot be read: its name is not a valid file name", code="unreadable", at=Location(repr(path))
        ) from error
    if len(content) > most_bytes:
        raise UserError(
            f"{label} is too large", code="out-of-range", at=Location(path), accepted=f"at most {most_bytes} bytes"
        )
    return content


def is_below(path: Path, roots: Iterable[Path]) -> bool:
    """Return whether a path, with symbolic links resolved, is one of some folders or below one of them."""
    real = path.resolve()
    return any(real.is_relative_to(root.resolve()) for root in roots)


def within(name: str, folder: Path, *, at: Location, key: str, roots: Sequence[Path] = ()) -> Path:
    """Return a file named in a user's file; with links resolved, it must be in or below a folder.

    Args:
        name: The name, relative to `folder`.
        folder: The folder of the user's file.
        at: Location of the name.
        key: Key that holds it.
        roots: Further folders that may hold the file.

    Raises:
        UserError: The name leads elsewhere.
    """
    try:
        path = (folder / name).resolve()
        if is_below(path, (folder, *roots)):
            return path
    except (OSError, ValueError, RuntimeError):  # a NUL, or circular links
        pass
    accepted = f"a file in or below {', '.join(str(root) for root in (folder, *roots))}"
    target = with_target(name, folder)
    raise UserError(
        "the file is outside the experiment's folder", code="refused", at=at, key=key, found=target, accepted=accepted
    )


def with_target(name: str, folder: Path) -> str:
    """Return a file name and, for a symbolic link, the link's target."""
    try:
        return f"{name}, a link to {(folder / name).readlink()}"
    except (OSError, ValueError):
        return name


def _missing(path: Path) -> UserError:
    folder = path.parent
    near = folder.glob(f"*{path.suffix}") if folder.is_dir() else ()
    siblings = sorted(sibling.name for sibling in near if sibling.exists())  # skip dangling links
    return UserError(
        "no such file",
        code="missing-file",
        at=Location(path),
        accepted=siblings[:_MOST_SIBLINGS] or None,
        suggestion=did_you_mean(path.name, siblings),
    )


def check_below(file: Path, roots: Iterable[Path]) -> None:
    """Check that a file, with symbolic links resolved, lies below one of some folders.

    Raises:
        UserError: It lies elsewhere.
    """
    roots = tuple(roots)
    if not is_below(file, roots):
        raise UserError(
            "the file lies outside the folders that are searched",
            code="refused",
            at=Location(file),
            found=str(file.resolve()),
            accepted=f"a file below {', '.join(map(str, roots))}",
        )
