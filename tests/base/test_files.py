from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.base.errors import UserError
from lab.base.files import check_below, read_regular, write_atomically


def test_text_and_bytes_and_parts_of_both(tmp_path: Path) -> None:
    file = tmp_path / "a"
    write_atomically(file, "größe\n")
    assert file.read_bytes() == "größe\n".encode()
    write_atomically(file, b"\x00\xff")
    assert file.read_bytes() == b"\x00\xff"
    parts: tuple[str | bytes, ...] = ("ä", b"b", "")
    write_atomically(file, iter(parts))
    assert file.read_text(encoding="utf-8") == "äb"
    write_atomically(file, "")
    assert file.read_bytes() == b""
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_others_may_read_the_file(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a", "text")
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o644


def test_a_failure_midway_keeps_the_old_content_and_leaves_nothing(tmp_path: Path) -> None:
    def parts() -> Iterator[str]:
        yield "new"
        raise KeyboardInterrupt

    file = tmp_path / "a"
    file.write_text("old")
    with pytest.raises(KeyboardInterrupt):
        write_atomically(file, parts())
    assert file.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_atomically(tmp_path / "nowhere" / "a", "text")


def test_a_regular_file_is_read_up_to_a_size(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"12345")
    assert read_regular(file, 5) == b"12345"
    with pytest.raises(UserError, match="too large") as caught:
        read_regular(file, 4)
    assert caught.value.accepted == "at most 4 bytes"


def test_what_is_no_regular_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, words in (
        (tmp_path, "not a regular file"),
        (tmp_path / "pipe", "not a regular file"),
        (Path("/dev/zero"), "not a regular file"),
        (tmp_path / "none", "cannot read"),
    ):
        with pytest.raises(UserError, match=words):
            read_regular(path, 100)


def test_a_link_may_not_lead_out_of_a_folder(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.touch()
    (inside / "link").symlink_to(outside)
    (inside / "own").symlink_to(inside / "file")
    check_below(inside / "own", [tmp_path / "none", inside])
    with pytest.raises(UserError, match="lies outside") as caught:
        check_below(inside / "link", [inside])
    assert caught.value.found == str(outside)
