from __future__ import annotations

import pytest

from lab.base.errors import MissingToolError
from lab.toolchain import locate
from lab.toolchain.nvjitlink import LinkerLibrary, load

PTX = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n"


@pytest.fixture(scope="module")
def library() -> LinkerLibrary:
    found = locate.nvjitlinks()
    return load(found[0]) if found else pytest.skip("nvJitLink is not on this machine")


def test_a_path_is_loaded_once(library):
    assert load(library.path) is library
    assert library.version.split(".")[0].isdigit()


def test_a_module(library):
    made = library.assemble(PTX, "k.ptx", ["-arch=sm_90", "-Xptxas=-v"])
    assert made.cubin.startswith(b"\x7fELF")
    assert "Compiling entry function 'k' for 'sm_90'" in made.log


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        (PTX.replace("ret", "rot"), ["-arch=sm_90"], "line 4"),
        ("garbage", ["-arch=sm_90"], "k.ptx"),
        ("", ["-arch=sm_90"], ""),
        (PTX, ["-arch=sm_91"], "91"),
        (PTX, ["-arch=sm_80"], "higher than"),
        (PTX, ["-arch=sm_90", "-Xptxas=--no-such-option"], "no-such-option"),
        (PTX, ["--no-such-option"], ""),
    ],
)
def test_a_refusal_has_a_log(library, text, options, words):
    made = library.assemble(text, "k.ptx", options)
    assert made.cubin == b""
    assert made.log
    assert words in made.log


def test_what_is_no_library(tmp_path):
    (tmp_path / "libnvJitLink.so.13").write_text("no library")
    with pytest.raises(MissingToolError, match="cannot load nvJitLink"):
        LinkerLibrary(tmp_path / "libnvJitLink.so.13")
