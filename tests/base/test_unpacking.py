from __future__ import annotations

import io
import lzma
import tarfile
import tracemalloc
from collections.abc import Callable

import pytest

from lab.base.unpacking import PackedFileError, members, unpacked


def archive(*infos: tuple[tarfile.TarInfo, bytes], form: int = tarfile.USTAR_FORMAT) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form) as tar:
        for info, content in infos:
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def entry(name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type = kind
    return info, content


def header(kind: bytes, size: int) -> bytes:
    info = tarfile.TarInfo("x")
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT)


def test_what_was_packed_is_unpacked() -> None:
    for content in (b"", b"a", bytes(3 << 20)):
        assert unpacked(lzma.compress(content), len(content)) == content


def test_a_bomb_stops_at_the_limit_and_takes_no_more_memory() -> None:
    packer = lzma.LZMACompressor(preset=0)
    bomb = b"".join(packer.compress(bytes(1 << 20)) for _ in range(200)) + packer.flush()
    tracemalloc.start()
    with pytest.raises(PackedFileError, match="it unpacks to more than 4194304 bytes"):
        unpacked(bomb, 4 << 20)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 << 20


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (lambda packed: packed[:-20], "cut short"),
        (lambda packed: b"", "cut short"),
        (lambda packed: packed + b"more", "4 bytes follow its end"),
        (lambda packed: packed[:40] + b"\xff" + packed[41:], "orrupt"),
        (lambda packed: b"nothing of the kind", "not supported"),
    ],
    ids=["cut", "empty", "followed", "changed", "another format"],
)
def test_a_damaged_file_is_refused(harm: Callable[[bytes], bytes], reason: str) -> None:
    with pytest.raises(PackedFileError, match=reason):
        unpacked(harm(lzma.compress(b"the content of a file that has some length" * 9)), 1 << 20)


def test_a_dictionary_beyond_the_memory_is_refused() -> None:
    packed = lzma.compress(b"x", filters=[{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 29}])
    with pytest.raises(PackedFileError, match=r"[Mm]emory usage limit"):
        unpacked(packed, 1 << 20)


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_members_are_the_regular_files(form: int) -> None:
    dated = entry("./dated", b"x" * 513)
    dated[0].mtime = 1.5  # in an extended header, where the format has one
    content = archive(
        entry("folder", kind=tarfile.DIRTYPE),
        entry("folder/a", b"1" * 512),
        entry("link", kind=tarfile.SYMTYPE),
        entry("pipe", kind=tarfile.FIFOTYPE),
        dated,
        entry("empty"),
        form=form,
    )
    assert list(members(content)) == [("folder/a", b"1" * 512), ("dated", b"x" * 513), ("empty", b"")]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (archive(entry("n" * 200, b"x"), form=tarfile.GNU_FORMAT), "unsupported type"),
        (archive(entry("n" * 200 + "ü", b"x"), form=tarfile.PAX_FORMAT), "unsupported type"),
        (header(tarfile.GNUTYPE_LONGNAME, 3 << 30), "said to have 3221225472 bytes, but the archive ends earlier"),
        (header(tarfile.XHDTYPE, 3 << 30), "said to have 3221225472 bytes"),
        (header(tarfile.REGTYPE, -1), "said to have -1 bytes"),
        (header(tarfile.GNUTYPE_SPARSE, 0), "unsupported type"),
        (b"x" * 512, "the header at byte 0 is damaged"),
        (archive(entry("a", b"x"))[:512], "said to have 1 bytes, but the archive ends earlier"),
        (archive(entry("a"))[:100], "the header at byte 0 is damaged: truncated header"),
    ],
    ids=[
        "GNU name",
        "pax name",
        "GNU bomb",
        "pax bomb",
        "negative",
        "sparse",
        "no header",
        "cut content",
        "cut header",
    ],
)
def test_other_archives_are_refused(content: bytes, reason: str) -> None:
    with pytest.raises(PackedFileError, match=reason):
        list(members(content))
