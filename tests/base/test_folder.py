from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.base.errors import StoreError
from lab.base.folder import Folder, is_name


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """A folder two levels below one whose path leads through a link."""
    (tmp_path / "real").mkdir()
    (tmp_path / "root").symlink_to(tmp_path / "real")
    made = Folder(tmp_path / "root") / "a" / "b"
    assert made.make() == tmp_path / "root" / "a" / "b"
    return made


def test_what_is_written_is_read(folder: Folder) -> None:
    folder.write("text", "größe\r\n")
    folder.write("parts", iter(("ä", b"\xff")))
    assert folder.read("text") == "größe\r\n".encode()
    assert folder.read_text("text") == "größe\n"
    assert folder.read_text("parts") == "ä\ufffd"
    assert folder.size("parts") == 3
    assert folder.files() == {"text", "parts"}
    assert (folder.path / "text").stat().st_mode & 0o777 == 0o644


def test_what_is_missing_is_not_there(folder: Folder) -> None:
    for place in (folder, folder / "none" / "below"):
        assert place.read("x") is None
        assert place.read_text("x") is None
        assert place.size("x") is None
        assert place.check("x") is False
        assert place.holds("x", (b"",)) is False
        assert place.files() == place.folders() == frozenset()
        place.remove("x")
    with pytest.raises(FileNotFoundError):
        (folder / "none").write("x", "")


@pytest.mark.parametrize(
    "name", ["", ".", "..", "/", "/etc", "a/b", "a\0", "a\nb", "\x1b[1m", "\x85", "x" * 256, "\ud800"]
)
def test_only_a_name_names_a_file(folder: Folder, name: str) -> None:
    assert not is_name(name)
    attempts = (
        folder.read,
        folder.size,
        folder.check,
        folder.remove,
        folder.__truediv__,
        lambda x: folder.write(x, ""),
    )
    for attempt in attempts:
        with pytest.raises(StoreError, match="is not a valid name"):
            attempt(name)


@pytest.mark.parametrize("name", ["a", "...", ".a", "-rf", "größe", "a b", "x" * 255])
def test_most_names_name_a_file(folder: Folder, name: str) -> None:
    folder.write(name, "text")
    assert folder.read(name) == b"text"


def test_links_are_not_followed(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    secret = tmp_path / "outside" / "secret"
    secret.write_text("secret")
    (folder.path / "file").symlink_to(secret)
    (folder.path / "folder").symlink_to(secret.parent)
    for attempt in (folder.read, folder.check, lambda name: folder.open(name, os.O_RDWR | os.O_CREAT)):
        with pytest.raises(StoreError, match=r"b/file: expected a regular file, found a symbolic link"):
            attempt("file")
    inside = folder / "folder"
    for enter in (inside.read, inside.size, inside.check, inside.remove, lambda name: inside.write(name, "mine")):
        with pytest.raises(StoreError, match=r"b/folder: expected a folder, found a symbolic link"):
            enter("secret")
    with pytest.raises(StoreError, match="expected a folder, found a symbolic link"):
        (inside / "new").make()
    assert folder.size("file") is None
    assert folder.files() == folder.folders() == frozenset()
    folder.write("file", "mine")
    folder.remove("folder")
    assert folder.read("file") == b"mine"
    assert secret.read_text() == "secret"
    assert [path.name for path in secret.parent.iterdir()] == ["secret"]


def test_a_removed_folder_takes_nothing_behind_its_links_with_it(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text("")
    below = folder / "below"
    below.make()
    below.write("file", "")
    (below.path / "link").symlink_to(tmp_path / "outside")
    folder.remove("below")
    assert not below.path.exists()
    assert (tmp_path / "outside" / "file").exists()


def test_only_regular_files_of_a_bounded_size_are_read(folder: Folder) -> None:
    os.mkfifo(folder.path / "pipe")
    (folder.path / "folder").mkdir()
    with pytest.raises(StoreError, match="pipe: expected a regular file, found a FIFO"):
        folder.read("pipe")
    with pytest.raises(StoreError, match="folder: expected a regular file, found a folder"):
        folder.read("folder")
    folder.write("file", "1234")
    assert folder.read("file", 4) == b"1234"
    with pytest.raises(StoreError, match=r"b/file: expected at most 3 bytes, found 4"):
        folder.read("file", 3)


def test_a_file_of_no_size_is_read_up_to_its_limit() -> None:
    with pytest.raises(StoreError, match="expected at most 10 bytes, found 11"):
        Folder(Path("/proc/self")).read("status", 10)


def test_a_failure_midway_keeps_the_old_content_and_leaves_nothing(folder: Folder) -> None:
    def parts() -> Iterator[str]:
        yield "new"
        raise KeyboardInterrupt

    folder.write("a", "old")
    with pytest.raises(KeyboardInterrupt):
        folder.write("a", parts())
    assert folder.read("a") == b"old"
    assert folder.files() == {"a"}


def test_an_error_of_the_system_names_the_file(folder: Folder) -> None:
    (folder.path / "taken").mkdir()
    with pytest.raises(OSError, match="directory") as caught:
        folder.write("taken", "x")
    assert caught.value.filename == str(folder.path / "taken")


def test_a_path_below_is_written_with_its_folders(folder: Folder, tmp_path: Path) -> None:
    folder.write_below("c/d/e", "text")
    assert (folder.path / "c" / "d" / "e").read_text() == "text"
    for path in ("../e", "c/../../e", "/e"):
        with pytest.raises(StoreError, match="is not a valid name"):
            folder.write_below(path, "text")
    (folder.path / "link").symlink_to(tmp_path)
    with pytest.raises(StoreError, match="found a symbolic link"):
        folder.write_below("link/e", "text")


@pytest.mark.parametrize(("parts", "same"), [((b"ab", b"c"), True), ((b"ab",), False), ((b"abc", b"d"), False)])
def test_contents_are_compared_in_parts(folder: Folder, parts: tuple[bytes, ...], same: bool) -> None:
    folder.write("a", "abc")
    assert folder.holds("a", parts) is same
