from __future__ import annotations

import struct
import zipfile
from pathlib import Path

import pytest

from lab.base.errors import UserError
from lab.toolchain.containers.images import device_images, is_container

GOLDEN = Path(__file__).with_name("golden")
FATBIN = (GOLDEN / "size.fatbin").read_bytes()
KERNEL = "_Z5scalePfPKffi"


def library(content: bytes, section: str = ".nv_fatbin") -> bytes:
    """Return an ELF file with one section of a name."""
    names = b"\0" + section.encode() + b"\0.shstrtab\0"
    at = 64 + len(content) + len(names)
    header = b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, at, 0, 64, 56, 0, 64, 3, 2)
    entry = struct.Struct("<IIQQQQIIQQ")
    sections = (
        bytes(64),
        entry.pack(1, 1, 2, 0, 64, len(content), 0, 0, 8, 0),
        entry.pack(2 + len(section), 3, 0, 0, 64 + len(content), len(names), 0, 0, 1, 0),
    )
    return header + content + names + b"".join(sections)


@pytest.mark.parametrize("section", [".nv_fatbin", "__nv_relfatbin"])
def test_a_library(tmp_path, section):
    file = tmp_path / "libk.so.1"
    file.write_bytes(library(FATBIN, section))
    assert is_container(file)
    found = device_images(file)
    assert [(one.entry.kind, one.isa, one.where, one.kernels) for one in found] == [
        ("ptx", "ptx", "libk.so.1", (KERNEL,)),
        ("cubin", "sass", "libk.so.1", (KERNEL,)),
    ]
    assert len({one.id for one in found}) == 2


def test_a_library_without_device_code(tmp_path):
    file = tmp_path / "libc.so"
    file.write_bytes(library(b"text", ".text"))
    assert device_images(file) == ()


def test_a_wheel(tmp_path):
    file = tmp_path / "k-1-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as wheel:
        wheel.writestr("k/lib.so", library(FATBIN))
        wheel.writestr("k/broken.so", b"\x7fELF")
        wheel.writestr("k/module.py", "x = 1")
    found = device_images(file)
    assert [(one.where, one.kernels) for one in found if one.entry.is_listing] == [("k/lib.so", (KERNEL,))] * 2
    assert [one.where for one in found if one.entry.refused] == ["k/broken.so"]


def test_a_cache_of_triton_is_a_folder(tmp_path):
    (tmp_path / "HASH").mkdir()
    (tmp_path / "HASH" / "k.ptx").write_bytes(b".version 8.4\n.target sm_90a\n.visible .entry k()\n{ ret; }\n\0")
    (tmp_path / "HASH" / "k.json").write_text("{}")
    (found,) = device_images(tmp_path)
    assert (found.where, found.entry.arch, found.kernels) == ("HASH/k.ptx", "compute_90a", ("k",))
    assert not found.entry.data.endswith(b"\0")


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.whl", b"PK"), ("a.so", b"\x7fELF"), ("a.so", b"text"), ("a.a", b"!<arch>\n"), ("a.fatbin", FATBIN[:-1])],
)
def test_what_is_not_what_its_name_says(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError) as caught:
        device_images(tmp_path / name)
    assert str(tmp_path / name) in str(caught.value)
