from __future__ import annotations

import io
import lzma
import tarfile
from pathlib import Path

import pytest
from library_support import small_library
from mistakes import coded

from lab.base.errors import UserError
from lab.library import archive, emit
from lab.library.archive import SHIPPED, SUFFIX, pack, stored
from lab.library.emit import write
from lab.library.picking import picked


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    library = small_library()
    where = tmp_path / "sgemm"
    write(library, {kernel.name: kernel.name.encode() for kernel in library.kernels}, where)
    return where


def test_an_archive_holds_what_the_folder_holds(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "packed" / f"sgemm{SUFFIX}"
    pack(folder, file)
    (by_folder,), (by_archive,), (by_place,) = stored(folder), stored(file), stored(file.parent)
    assert by_folder.library == by_archive.library == by_place.library == small_library()
    assert by_folder.cubins == by_archive.cubins == by_place.cubins
    assert by_archive.place == file
    assert set(by_archive.cubins.values()) == {kernel.name.encode() for kernel in small_library().kernels}


def test_equal_folders_make_equal_archives(folder: Path, tmp_path: Path) -> None:
    first_archive, other = tmp_path / f"one{SUFFIX}", tmp_path / f"other{SUFFIX}"
    pack(folder, first_archive)
    for file in folder.iterdir():
        file.touch()
    pack(folder, other)
    assert first_archive.read_bytes() == other.read_bytes()


def test_a_run_holds_every_library_below_it(folder: Path) -> None:
    assert [one.place for one in stored(folder.parent)] == [folder]


def test_a_library_that_comes_with_lab_is_found_by_its_name(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = tmp_path / "shipped"
    pack(folder, shipped / "mine" / f"sgemm{SUFFIX}")
    monkeypatch.setattr(archive, "SHIPPED", shipped)
    monkeypatch.chdir(tmp_path)
    assert archive.find("mine") == shipped / "mine"
    assert archive.find("sgemm") == Path("sgemm")  # what lies here goes first
    with pytest.raises(UserError, check=coded("missing-file", found="other")) as error:
        archive.find("other")
    assert "mine" in str(error.value.accepted)
    with pytest.raises(UserError, check=coded("missing-file", found="shipped/other")):
        archive.find("shipped/other")
    monkeypatch.setattr(archive, "SHIPPED", tmp_path / "absent")
    with pytest.raises(UserError, check=coded("missing-file", found="mine")) as error:
        archive.find("mine")
    assert "./libraries" in str(error.value.suggestion)


def test_a_place_without_libraries_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, check=coded("missing-file")):
        stored(tmp_path)
    with pytest.raises(UserError, check=coded("out-of-range", found=[])):
        pack(tmp_path, tmp_path / f"a{SUFFIX}")


def archived(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, data in members.items():
            member = tarfile.TarInfo(name.replace("_json", ".json"))
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return lzma.compress(buffer.getvalue())


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "cannot be read"),
        (b"nothing that was packed", "cannot be read"),
        (archived(a_json=b"{}")[:60], "cannot be read"),
        (archived(cubin=b"x"), "not hold exactly one library"),
        (archived(a_json=b"{}", b_json=b"{}"), "not hold exactly one library"),
        (archived(a_json=b"\xff"), "cannot be read"),
        (archived(a_json=b"{}"), "not a library"),
    ],
)
def test_a_broken_archive_is_refused_by_its_name(tmp_path: Path, data: bytes, reason: str) -> None:
    file = tmp_path / f"broken{SUFFIX}"
    file.write_bytes(data)
    with pytest.raises(UserError, match=reason) as error:
        stored(file)
    assert file.name in str(error.value.at)


def test_an_archive_that_unpacks_to_too_much_is_refused(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / f"sgemm{SUFFIX}"
    pack(folder, file)
    monkeypatch.setattr(archive, "_MOST_BYTES", 100)
    with pytest.raises(UserError, match="unpacks to more than 100 bytes"):
        stored(file)


def test_members_beside_the_library_and_links_are_ignored(folder: Path, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        link = tarfile.TarInfo("../outside")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
        for file in folder.iterdir():
            tar.add(file, file.name)
    file = tmp_path / f"linked{SUFFIX}"
    file.write_bytes(lzma.compress(buffer.getvalue()))
    (found,) = stored(file)
    assert set(found.cubins) == {kernel.cubin for kernel in small_library().kernels}


PLACES = [place for place in sorted(SHIPPED.iterdir()) if place.is_dir()]
MOST_BYTES = 8 << 20


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.name)
def test_a_shipped_library_is_complete_and_as_it_is_emitted_today(place):
    found = stored(place.name)
    assert {one.library.layout for one in found} == {"nn", "nt", "tn", "tt"}
    assert sum(file.stat().st_size for file in place.iterdir()) <= MOST_BYTES
    for archived in found:
        assert {kernel.cubin for kernel in archived.library.kernels} == set(archived.cubins)
        assert archived.place.name == f"{archived.library.name}{SUFFIX}"
        with tarfile.open(archived.place) as tar:
            header = tar.extractfile(f"{archived.library.name}.h")
            assert header is not None
            assert header.read().decode() == emit.to_header(archived.library)
        for size in ((1, 1, 1), (4096, 4096, 4096), (2994, 116, 620), (7, 11, 10007)):
            assert picked(archived.library, *size) in range(len(archived.library.kernels))
