from __future__ import annotations

import contextlib
import time

import pytest
from mistakes import coded

from lab.base.errors import CompileError, UserError
from lab.toolchain.base import CompileRequest
from lab.toolchain.includes import MOST_FILES, check, gather, includes
from lab.toolchain.nvcc import Nvcc
from lab.toolchain.nvrtc.compiler import find_nvrtc

KERNEL = 'extern "C" __global__ void k(int *x) { *x = 1; }\n'

# @SECRET@ stands for the path of a file that no source may read
ESCAPES = {
    "an absolute name": '#include "@SECRET@"',
    "an absolute name in brackets": "#include <@SECRET@>",
    "from the root folder": '#include "@RELATIVE@"',
    "up": '#include "../../../../../../../../../..@SECRET@"',
    "up in the middle": '#include "a/../../../../../../../..@SECRET@"',
    "a dot": '#include "./@RELATIVE@"',
    "two slashes": '#include "/@SECRET@"',
    "a macro": '#define NAME "@SECRET@"\n#include NAME',
    "a macro with arguments": "#define S(x) #x\n#include S(@SECRET@)",
    "a digraph": '%:include "@SECRET@"',
    "a trigraph": '??=include "@SECRET@"',
    "a trigraph that continues": '#incl??/\nude "@SECRET@"',
    "a continued word": '#incl\\\nude "@SECRET@"',
    "a continued mark": '#\\\ninclude "@SECRET@"',
    "a continued name": '#include "@SECRET@\\\n"',
    "a continuation with blanks": '#incl\\  \nude "@SECRET@"',
    "a continuation with CRLF": '#incl\\\r\nude "@SECRET@"',
    "comments": '/* a\n*/ # /* b\n*/ include /**/ "@SECRET@"',
    "a continued comment": '/* a *\\\n/ #include "@SECRET@"',
    "a form feed": '\f\v#include "@SECRET@"',
    "a carriage return": 'int x;\r#include "@SECRET@"\r',
    "a NUL": 'int x;\0\n#include "@SECRET@"',
    "a universal character name": '#incl\\u0075de "@SECRET@"',
    "a raw string that seems to go on": 'const char *s = R"a(" /* )a";\n#include "@SECRET@"\n// */',
    "a comment that seems to begin": 'const char *s = "/*";\n#include "@SECRET@"\n// */',
    "digit separators": "int a = 1'000; // '\n#include \"@SECRET@\"",
    "include_next": '#include_next "@SECRET@"',
    "import": '#import "@SECRET@"',
    "a header unit": 'import "@SECRET@";',
    "a header unit in brackets": "export import /**/ <@SECRET@>;",
    "embed": 'const char s[] = {\n#embed "@SECRET@"\n};',
    "using": '#using "@SECRET@"',
    "has_include": '#if __has_include("@SECRET@")\n#error it is there\n#endif',
    "has_include from the root folder": '#if __has_include("@RELATIVE@")\n#error it is there\n#endif',
    "has_include by a macro": '#define H __has_include\n#if H("@SECRET@")\n#error it is there\n#endif',
    "has_include of a macro": '#define N "@SECRET@"\n#if __has_include(N)\n#error it is there\n#endif',
    "has_include_next": '#if __has_include_next("@SECRET@")\n#error it is there\n#endif',
    "has_embed": '#if __has_embed("@SECRET@")\n#error it is there\n#endif',
    "a compiled header": '#pragma GCC pch_preprocess "@SECRET@"',
    "a pragma operator": '_Pragma("GCC pch_preprocess \\"@SECRET@\\"")',
    "dependency": '#pragma GCC dependency "@SECRET@"',
    "an included assembly file": '__global__ void f() { asm(".include \\"@SECRET@\\";"); }',
    "an included binary": '__global__ void f() { asm(".incbin \\"@SECRET@\\";"); }',
    "a line of another file": '#line 1 "@FOLDER@/k.cu"\n#include "secret.h"',
    "a line mark of another file": '# 1 "@FOLDER@/k.cu"\n#include "secret.h"',
}
READ_BY_NOBODY = {
    # neither check nor compilers know these; that they fail or do nothing is tested with NVRTC below
    "has_embed",
    "an included assembly file",
    "an included binary",
    "a line of another file",
    "a line mark of another file",
    "from the root folder",  # below nvcc's temporary folder; NVRTC gets a text that is a warning
    "has_include from the root folder",
}
LEFT_OUT = ("from the root folder", "a line of another file", "a line mark of another file")
"""Where NVRTC gets a text in place of the file."""


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "secret.h"
    path.write_text("int confidential words;\n")
    return path


def written(escape, secret):
    text = ESCAPES[escape].replace("@SECRET@", str(secret)).replace("@RELATIVE@", str(secret)[1:])
    return text.replace("@FOLDER@", str(secret.parent)) + "\n" + KERNEL


@pytest.mark.parametrize("escape", ESCAPES)
def test_nvrtc_shows_nothing_of_another_file(escape, secret):
    request = CompileRequest(written(escape, secret), "k.cu", "sm_90")
    try:
        made = find_nvrtc().compile(request)
    except CompileError as error:
        log = error.log
    else:
        assert escape in ("has_include from the root folder", *LEFT_OUT)
        log = made.log + made.ptx
        assert ("was not found and is left out" in log) == (escape in LEFT_OUT)
    assert "confidential" not in log
    assert "it is there" not in log


@pytest.mark.parametrize("escape", sorted(set(ESCAPES) - READ_BY_NOBODY))
@pytest.mark.parametrize("own", [False, True], ids=["in the source", "in an included file"])
def test_nvcc_is_not_started_with_such_a_source(escape, own, secret, tmp_path):
    marker, nvcc = tmp_path / "ran", tmp_path / "nvcc"
    nvcc.write_text(f"#!/bin/sh\ntouch {marker}\nexit 1\n")
    nvcc.chmod(0o755)
    text = written(escape, secret)
    given = (('#include "own.h"\n', (("own.h", text),))) if own else (text, ())
    with pytest.raises(CompileError, match=r"^(k\.cu|own\.h)\(\d+\): error: "):
        Nvcc(nvcc, "13.0", (), with_pycuda=False).compile(CompileRequest(given[0], "k.cu", "sm_90", (), given[1]))
    assert not marker.exists()


def test_nvcc_finds_the_users_files_in_its_folder(tmp_path):
    nvcc = tmp_path / "nvcc"
    nvcc.write_text('#!/bin/sh\ncat k.cu sub/own.h; echo "$@"; exit 1\n')
    nvcc.chmod(0o755)
    request = CompileRequest('#include "sub/own.h"\n', "k.cu", "sm_90", (), (("sub/own.h", "int own;\n"),))
    with pytest.raises(CompileError) as caught:
        Nvcc(nvcc, "13.0", (), with_pycuda=False).compile(request)
    assert (
        '#include "sub/own.h"\nint own;\n-ptx -arch=sm_90 --extended-lambda -lineinfo -I. -o front.ptx k.cu'
        in caught.value.log
    )


def test_what_users_write_is_accepted():
    source = (
        '#pragma once\n#pragma unroll 4\n#include <cuda_fp16.h>\n#  include "own/types.h" // #include of it\n'
        '// include <x>, #include X and import "x" are words here: import them\n'
        "#if defined(__has_include) && __has_include(<cuda/std/array>)\n#ifdef __has_include\n#endif\n#endif\n"
        "#define JOIN(a, b) a##b\n#define NAME(x) \\\n  #x\n#define STEP(x) do { x; \\\n} while (0)\n"
        "const char *s = \"#include </etc/passwd>\"; int a = 1'000'000;\r\n#else\\\n\n"
    )
    assert [include.name for include in includes(source)] == ["cuda_fp16.h", "own/types.h"]
    check(source, "k.cu", {"own/types.h": "#include <stdint.h>\n"})


@pytest.mark.parametrize("name", ["/own.h", "../own.h", "k.cu", "a//b", "", "a\nb"])
def test_names_of_included_files(name):
    with pytest.raises(CompileError, match="cannot have this name"):
        check("", "k.cu", {name: ""})


def test_gather_names_files_from_their_folder(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    for path, text in {
        first / "sub" / "a.h": '#include "b.h"\n#include <cuda_fp16.h>\n#include "c.h"\n',
        first / "sub" / "b.h": '#include "a.h"\r\n',
        second / "c.h": "int c;\n",
        tmp_path / "outside.h": "int outside;\n",
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (first / "link.h").symlink_to(tmp_path / "outside.h")
    source, found = gather('#include "sub/a.h"\n#include <c.h>\n#include "link.h"\n', (first, second))
    assert source == '#include "sub/a.h"\n#include "c.h"\n#include "link.h"\n'
    assert found == {
        "sub/a.h": '#include "sub/b.h"\n#include <cuda_fp16.h>\n#include "c.h"\n',
        "sub/b.h": '#include "sub/a.h"\n',
        "c.h": "int c;\n",
    }


def test_what_gather_does_not_read(tmp_path):
    (tmp_path / "folder.h").mkdir()
    with pytest.raises(UserError, check=coded("unreadable", found="a folder")):
        gather('#include "folder.h"\n', (tmp_path,))
    for i in range(MOST_FILES + 1):
        (tmp_path / f"h{i}.h").write_text(f'#include "h{i + 1}.h"\n')
    with pytest.raises(UserError, match="includes too much"):
        gather('#include "h0.h"\n', (tmp_path,))
    escape = '#include "/etc/hostname"\n'
    assert gather(escape, (tmp_path,)) == (escape, {})  # a compiler's door refuses it


@pytest.mark.parametrize(
    "text",
    ["/*\n" * 200_000 + "*/", "#/*\n" * 200_000 + "*/", "/*\n#/**/" * 100_000, "\n" * 500_000, "import " * 100_000,
     "# " * 200_000, " " * 500_000 + "#", "__has_include" * 50_000, "\\\n" * 200_000, "#include/*" * 50_000],
    ids=range(10),
)  # fmt: skip
def test_a_long_source_is_judged_in_linear_time(text):
    started = time.process_time()
    with contextlib.suppress(CompileError):
        check(text, "k.cu", {})
    assert time.process_time() - started < 10  # 0.5 s here; quadratic ones took minutes
