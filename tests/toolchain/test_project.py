"""Roots and flags of projects, from the files around a source."""

from __future__ import annotations

import json

import pytest

from lab.base.errors import UserError
from lab.toolchain.project import Flags, flags_of, merged, root_of, tree_of


@pytest.fixture
def source(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "include").mkdir()
    (tmp_path / "src/k.cu").write_text("")
    (tmp_path / ".git").mkdir()
    return tmp_path / "src/k.cu"


def flags(source, file, text):
    (source.parents[1] / file).write_text(text)
    found = flags_of(source)
    return [one.relative_to(source.parents[1].resolve()).as_posix() for one in found.search], list(found.macros)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("k: src/k.cu\n\tnvcc -Iinclude -DN=4 -D M src/k.cu\n", (["include"], ["N=4", "M"])),
        ("F = -Iinclude\nF += -DN=4 # four\nk:\n\t@$(NVCC) ${F} k.cu\n", (["include"], ["N=4"])),
        ("F = $(G)\nG = -DN=4\nk:\n\tnvcc \\\n\t  $(F)\n", ([], ["N=4"])),
        ("other:\n\tnvcc -DN=1 other.cu\nk.o: src/k.cu\n\tnvcc -DN=2 -c $<\n", ([], ["N=2"])),
        ("N ?= 8\nF := -DN=$(N)\nN = 9\nk:\n\tnvcc $(F)\n", ([], ["N=8"])),
        ("k:\n\tnvcc -DN=1 -UN -I/usr/include -Imissing -DX=$(shell date)\n", ([], ["X="])),
        ("A = $(A)\nk:\n\tgcc -DN=1 $(A)\n", ([], [])),
        ("k:\n\tnvcc -DN='4\n", ([], [])),
    ],
)
def test_a_makefile_gives_the_flags_of_its_recipe(source, text, expected):
    assert flags(source, "Makefile", text) == expected or (expected == ([], []) and "'" in text)


def test_compile_commands_come_first(source):
    (source.parents[1] / "Makefile").write_text("k:\n\tnvcc -DN=1 k.cu\n")
    entries = [
        {"directory": str(source.parents[1]), "file": "src/other.cu", "command": "nvcc -DN=2 src/other.cu"},
        {
            "directory": str(source.parents[1]),
            "file": "src/k.cu",
            "arguments": ["nvcc", "-isystem", "include", "-DN=3"],
        },
    ]
    assert flags(source, "compile_commands.json", json.dumps(entries)) == (["include"], ["N=3"])
    with pytest.raises(UserError) as caught:
        flags(source, "compile_commands.json", "{")
    assert caught.value.at.file.name == "compile_commands.json"


def test_the_root_is_the_repository_or_the_highest_build(tmp_path, source, monkeypatch):
    monkeypatch.chdir("/")
    assert root_of(source) == tmp_path.resolve()
    (tmp_path / ".git").rmdir()
    assert root_of(source) == source.parent.resolve()
    (tmp_path / "Makefile").write_text("")
    assert root_of(source) == tmp_path.resolve()
    (tmp_path / "Makefile").unlink()
    monkeypatch.chdir(tmp_path)
    assert root_of(source) == tmp_path.resolve()


def test_a_root_is_above_its_source(tmp_path, source):
    with pytest.raises(UserError) as caught:
        tree_of(source, tmp_path / "include", Flags())
    assert caught.value.key == "--root"
    with pytest.raises(UserError) as caught:
        tree_of(source, None, Flags((tmp_path / "missing",)))
    assert caught.value.key == "-I"


def test_the_command_line_outranks_files(tmp_path):
    both = merged(Flags(macros=("N=1",)), Flags((tmp_path,), ("N=2", "M=3"), tmp_path / "Makefile"))
    assert (both.macros, both.search) == (("N=1", "M=3"), (tmp_path,))
