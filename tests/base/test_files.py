from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from mistakes import coded

from lab.base.errors import CompileError, Location, StoreError, UserError
from lab.base.files import check_below, read_regular, scratch, within, write_atomically


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


@pytest.mark.parametrize("kind", ["FIFO", "device", "directory", "socket"])
def test_only_regular_files_are_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "f"
    if kind == "FIFO":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "directory":
        path.mkdir()
    else:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(path))
    with pytest.raises(UserError) as caught:
        read_regular(path, 100, "the template")
    assert "the template cannot be read" in str(caught.value)
    assert caught.value.at is not None
    assert caught.value.at.file == path


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"x" * 100)
    assert read_regular(path, 100) == b"x" * 100
    with pytest.raises(UserError, match=r"the file is too large\n  accepted: at most 99 bytes"):
        read_regular(path, 99)
    with pytest.raises(UserError, match="too large"):  # its size is said to be 0
        read_regular(Path("/proc/self/status"), 10)


@pytest.mark.parametrize("name", ["a" * 300, "a\0b", "a\ud800", "no/such/folder"])
def test_a_name_that_no_file_can_have_is_a_users_mistake(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError):
        read_regular(tmp_path / name, 100)


def test_a_file_named_in_a_file_stays_in_its_folder(tmp_path: Path) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    (own / "sub").mkdir(parents=True)
    other.mkdir()
    (own / "link").symlink_to(other / "secret.csv")
    (own / "loop").symlink_to(own / "loop")
    (own / "inner").symlink_to(own / "sub" / "x.csv")
    at = Location("f.yaml", 3)
    assert within("sub/x.csv", own, at=at, key="csv") == own / "sub" / "x.csv"
    assert within("inner", own, at=at, key="csv") == own / "sub" / "x.csv"
    assert within("../other/secret.csv", own, at=at, key="csv", roots=[other]) == other / "secret.csv"
    for name in ("/etc/passwd", "../other/secret.csv", "sub/../../other/x", "link", "loop", "a\0"):
        with pytest.raises(UserError, check=coded("refused", key="csv", line=3)) as caught:
            within(name, own, at=at, key="csv")
        assert caught.value.at == at
        assert caught.value.key == "csv"


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


def test_names_that_are_no_text_can_be_written(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a", "b\udcff")
    assert (tmp_path / "a").read_text(encoding="utf-8") == "b\ufffd"


def test_a_folder_for_a_tools_files_is_there_for_a_while() -> None:
    with scratch("lab-test-") as folder:
        (folder / "a").write_text("b")
        assert folder.name.startswith("lab-test-")
    assert not folder.exists()


@pytest.mark.parametrize(
    "error",
    [
        OSError(28, "No space left on device"),
        CompileError("refused", "cicc: fatal: /tmp/x.ii: No space left on device", "nvcc"),
    ],
)
def test_that_temporary_files_have_no_room_is_not_the_fault_of_a_source(error: Exception) -> None:
    words = "temporary files cannot be written: No space left on device; set TMPDIR"
    with pytest.raises(StoreError, match=words), scratch("lab-test-"):
        raise error


def test_what_a_compiler_refuses_stays_its_refusal() -> None:
    with pytest.raises(CompileError, match="refused"), scratch("lab-test-"):
        raise CompileError("refused", "k.cu(1): error", "nvcc")
