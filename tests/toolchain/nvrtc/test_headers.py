from __future__ import annotations

import os

import pytest

from lab.toolchain.nvrtc import headers
from lab.toolchain.nvrtc.headers import includes_any


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


def embed(source, folder, own=None):
    embedded = headers.embed(source, "k.cu", own or {}, headers.Headers(folder))
    return (
        embedded.source,
        {name: text for name, text in embedded.texts.items() if name not in embedded.left_out},
        embedded,
    )


def test_headers_are_followed_and_renamed(folder):
    source = '// first\n#include <outer.h>\n#include "mine.h"\n  #include <cuda/std/array>\n'
    text, texts, embedded = embed(source, folder)
    assert embedded.texts["mine.h"] == '#line 3 "/k.cu"\n#warning "mine.h" was not found and is left out\n'
    assert text == ('// first\n#include "/cuda/outer.h"\n#include "mine.h"\n  #include "/cuda/cccl/cuda/std/array"\n')
    assert texts == {
        "/cuda/outer.h": '#include "/cuda/detail/inner.h"\nint outer;\n',
        "/cuda/detail/inner.h": (
            '#include "/cuda/outer.h"\n#  include "/cuda/detail/beside.h"\n#include <elsewhere>\n'
        ),
        "/cuda/detail/beside.h": "int beside;\n",
        "/cuda/cccl/cuda/std/array": "int array;\n",
    }


def test_a_source_without_includes_stays(folder):
    assert embed("int x; // outer.h\n", folder)[:2] == ("int x; // outer.h\n", {})


def test_a_macro_that_names_a_header_leaves_all_to_the_disk(folder):
    source = "#include <outer.h>\n#include <macro.h>\n"
    text, texts, embedded = embed(source, folder, {"mine.h": "#include <outer.h>\n"})
    assert (text, texts) == (source, {"/mine.h": "#include <outer.h>\n"})
    assert embedded.search == (folder, folder / "cccl")


def test_a_header_of_cuda_gets_what_it_uses_and_does_not_include(folder):
    for name, text in {"cccl/cuda/ptx": "use(__half2)\n", "cccl/cuda/barrier": "#include <cuda/ptx>\n"}.items():
        (folder / name).write_text(text)
    (folder / "cuda_fp16.h").write_text("struct __half2;\n")  # an old folder has no cuda_bf16.h
    _, texts, _ = embed("#include <cuda/barrier>\n", folder)
    assert texts["/cuda/cccl/cuda/ptx"] == '#include "/cuda/cuda_fp16.h"\n#line 1\nuse(__half2)\n'
    assert "/cuda/cuda_fp16.h" in texts
    _, texts, embedded = embed("#include <macro.h>\n#include <cuda/barrier>\n", folder)
    assert texts == {"cuda/ptx": "#include <cuda_fp16.h>\n#line 1\nuse(__half2)\n"}
    assert embedded.search


def test_the_users_own_files_are_renamed_and_come_first(folder):
    own = {"outer.h": '#include "sub/a.h"\n', "sub/a.h": "#include <detail/beside.h>\n"}
    text, texts, _ = embed("#include <outer.h>\n", folder, own)
    assert text == '#include "/outer.h"\n'
    assert texts == {
        "/outer.h": '#include "/sub/a.h"\n',
        "/sub/a.h": '#include "/cuda/detail/beside.h"\n',
        "/cuda/detail/beside.h": "int beside;\n",
    }


def test_a_link_out_of_the_folder_is_not_followed(folder):
    (folder.parent / "outside.h").write_text("int outside;\n")
    (folder / "link.h").symlink_to(folder.parent / "outside.h")
    embedded = headers.embed("#include <link.h>\n", "k.cu", {}, headers.Headers(folder))
    assert "could not open source file" in embedded.left_out["link.h"].why


@pytest.mark.parametrize(
    ("source", "expected"),
    [("#include <x>", True), ('\n # include "x"', True), ("#include X", True), ("// include <x>", False)],
)
def test_includes_any(source, expected):
    assert includes_any(source) is expected


def test_a_header_of_a_package_that_is_not_installed_names_the_package(folder):
    folders = headers.Headers(folder)
    embedded = headers.embed("#include <curand_kernel.h>\n#include <other.h>\n", "k.cu", {}, folders)
    assert "python -m pip install nvidia-curand brings it" in embedded.left_out["curand_kernel.h"].why
    assert "pip" not in embedded.left_out["other.h"].why


@pytest.fixture
def cutlass(tmp_path):
    for name, text in {
        "cute/tensor.hpp": '#include "cute/array.hpp"\n#include <outer.h>\n',
        "cute/array.hpp": "template <class... _Tp>\nstruct tuple_size;\nint array;\n",
    }.items():
        (tmp_path / "cutlass" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "cutlass" / name).write_text(text)
    return tmp_path / "cutlass"


@pytest.mark.parametrize("declared", [False, True])
def test_headers_of_cutlass_are_passed_beside_cudas(folder, cutlass, declared):
    if declared:  # CCCL's own declaration of std::tuple_size, which CUTLASS's would contradict
        tuples = folder / "cccl/cuda/std/__tuple_dir/tuple_size.h"
        tuples.parent.mkdir(parents=True)
        tuples.write_text("_CCCL_BEGIN_NAMESPACE_STD\n")
    embedded = headers.embed("#include <cute/tensor.hpp>\n", "k.cu", {}, headers.Headers(folder, cutlass))
    assert headers.includes_cutlass(embedded)
    assert embedded.source == '#include "/cutlass/cute/tensor.hpp"\n'
    assert (
        embedded.texts["/cutlass/cute/tensor.hpp"] == '#include "/cutlass/cute/array.hpp"\n#include "/cuda/outer.h"\n'
    )
    declaration = "template <class... _Tp>\nstruct tuple_size;"
    assert embedded.texts["/cutlass/cute/array.hpp"] == ("\n" if declared else declaration) + "\nint array;\n"


def test_cutes_get_of_a_sequence_is_preferred_to_cccls(folder, cutlass):
    declaration = "template <size_t I, class T, T... Is>\nvoid f();\n"
    get = """template <size_t I, class T, T... Ints>
CUTE_HOST_DEVICE constexpr
tuple_element_t<I, integer_sequence<T, Ints...>>
get(integer_sequence<T, Ints...>) {
  static_assert(I < sizeof...(Ints), "Index out of range");
"""
    (cutlass / "cute/array.hpp").write_text(declaration + get)
    embedded = headers.embed("#include <cute/tensor.hpp>\n", "k.cu", {}, headers.Headers(folder, cutlass))
    preferred = """template <size_t I, class T, T First, T... Ints>
CUTE_HOST_DEVICE constexpr
tuple_element_t<I, integer_sequence<T, First, Ints...>>
get(integer_sequence<T, First, Ints...>) {
  static_assert(I < sizeof...(Ints) + 1, "Index out of range");
"""
    assert embedded.texts["/cutlass/cute/array.hpp"] == declaration + preferred


def test_headers_of_cutlass_stay_in_memory_where_cudas_stay_on_the_disk(folder, cutlass):
    source = '#include <cute/tensor.hpp>\n#include "macro.h"\n'
    embedded = headers.embed(source, "k.cu", {}, headers.Headers(folder, cutlass))
    assert embedded.source == '#include "/cutlass/cute/tensor.hpp"\n#include "macro.h"\n'
    assert embedded.texts["/cutlass/cute/tensor.hpp"] == '#include "/cutlass/cute/array.hpp"\n#include <outer.h>\n'
    assert embedded.search == headers.roots(folder)


def test_what_brings_the_headers_of_cutlass_is_told(folder):
    embedded = headers.embed("#include <cute/tensor.hpp>\n", "k.cu", {}, headers.Headers(folder))
    assert "install --no-deps nvidia-cutlass brings it" in embedded.left_out["cute/tensor.hpp"].why


def test_links_to_a_header_are_followed_once_however_many_include_it(folder, monkeypatch):
    for number in range(5):
        (folder / f"user{number}.h").write_text("#include <detail/beside.h>\n")
    followed, follow = list[str](), os.path.realpath

    def noted(path, **how):
        followed.append(str(path))
        return follow(path, **how)

    monkeypatch.setattr(os.path, "realpath", noted)
    _, texts, _ = embed("".join(f"#include <user{number}.h>\n" for number in range(5)), folder)
    assert len(texts) == 6
    assert followed.count(str(folder / "detail/beside.h")) == 1
