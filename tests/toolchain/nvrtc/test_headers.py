from __future__ import annotations

import pytest

from lab.toolchain.nvrtc.headers import embed, includes_any


@pytest.fixture
def folder(tmp_path):
    for name, text in {
        "outer.h": '#include "detail/inner.h"\nint outer;\n',
        "detail/inner.h": '#include <outer.h>\n#  include "beside.h"\n#include <elsewhere>\n',
        "detail/beside.h": "int beside;\n",
        "macro.h": "#include NAMED_BY_A_MACRO\n",
        "cccl/cuda/std/array": "int array;\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_headers_are_followed_and_renamed(folder):
    source = '// first\n#include <outer.h>\n#include "mine.h"\n  #include <cuda/std/array>\n'
    text, headers = embed(source, folder)
    assert text == ('// first\n#include "/cuda/outer.h"\n#include "mine.h"\n  #include "/cuda/cccl/cuda/std/array"\n')
    assert headers == {
        "/cuda/outer.h": '#include "/cuda/detail/inner.h"\nint outer;\n',
        "/cuda/detail/inner.h": (
            '#include "/cuda/outer.h"\n#  include "/cuda/detail/beside.h"\n#include <elsewhere>\n'
        ),
        "/cuda/detail/beside.h": "int beside;\n",
        "/cuda/cccl/cuda/std/array": "int array;\n",
    }


def test_a_source_without_includes_stays(folder):
    assert embed("int x; // outer.h\n", folder) == ("int x; // outer.h\n", {})


def test_a_macro_that_names_a_header_leaves_all_to_the_disk(folder):
    source = "#include <outer.h>\n#include <macro.h>\n"
    assert embed(source, folder) == (source, {})


def test_nothing_outside_the_folder_is_taken(folder):
    (folder.parent / "outside.h").write_text("int outside;\n")
    source = "#include <../outside.h>\n"
    assert embed(source, folder) == (source, {})


@pytest.mark.parametrize(
    ("source", "expected"),
    [("#include <x>", True), ('\n # include "x"', True), ("#include X", True), ("// include <x>", False)],
)
def test_includes_any(source, expected):
    assert includes_any(source) is expected
