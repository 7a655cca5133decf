from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from mistakes import coded
from typer.testing import CliRunner

from lab.base import yamlfile
from lab.base.errors import UserError
from lab.cli.inspect import variants
from lab.cli.main import app
from lab.cli.new import choose_launched, new, read_sources
from lab.toolchain.select import build

SOURCES = Path(__file__).parents[1] / "support" / "cuda"


@pytest.fixture
def source(tmp_path):
    def copy(name):
        return Path(shutil.copy(SOURCES / name, tmp_path / name))

    return copy


def test_a_file_is_written_beside_its_source(source, tmp_path):
    assert new(source("vector_add.cu")) == tmp_path / "vector_add.yaml"
    assert "kernel: vector_add\n" in (tmp_path / "vector_add.yaml").read_text()


def test_a_file_elsewhere_names_its_source_from_there(source, tmp_path):
    (tmp_path / "sources").mkdir()
    path = source("vector_add.cu").rename(tmp_path / "sources" / "vector_add.cu")
    new(path, tmp_path / "e.yaml")
    assert "source: sources/vector_add.cu\n" in (tmp_path / "e.yaml").read_text()
    with pytest.raises(UserError, match="must lie in the folder of its source, or above"):
        new(path, tmp_path / "other" / "e.yaml")


def test_a_file_that_exists_is_kept(source, tmp_path):
    (tmp_path / "vector_add.yaml").write_text("mine")
    with pytest.raises(UserError, check=coded("exists")):
        new(source("vector_add.cu"))
    assert (tmp_path / "vector_add.yaml").read_text() == "mine"
    new(source("vector_add.cu"), force=True)
    assert (tmp_path / "vector_add.yaml").read_text() != "mine"


def test_one_of_several_kernels(source):
    path = source("two_kernels.cu")
    with pytest.raises(UserError, check=coded("duplicate", key="--kernel")) as caught:
        new(path)
    assert caught.value.accepted == "forces, move"
    with pytest.raises(UserError, check=coded("unknown-name", key="--kernel", found="force")) as caught:
        new(path, kernel="force")
    assert caught.value.suggestion == "did you mean 'forces'?"
    assert "kernel: forces\n" in new(path, kernel="forces").read_text()


def test_a_kernel_that_only_prints_has_no_result_and_the_error_says_what_shows_what_it_prints(tmp_path):
    (tmp_path / "told.cu").write_text('\n__global__ void told(int n, float x) { printf("%d", n); }\n')
    with pytest.raises(UserError, check=coded("unsupported", key="arguments", line=2)) as caught:
        new(tmp_path / "told.cu")
    assert caught.value.at.line == 2
    assert caught.value.accepted.endswith("lab emulate told.cu --grid 1 --block 32 i32=1 f32=1")
    for written in ("float *x", "const __grid_constant__ CUtensorMap x", "Params x"):
        (tmp_path / "stored.cu").write_text(f"__global__ void stored(int n, {written}) {{ }}")
        assert new(tmp_path / "stored.cu", force=True)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("k.cu", "int main() {}", "no kernel was found"),
        ("k.txt", "", "not a CUDA source"),
        ("k.cu", None, "k.cu"),
    ],
)
def test_what_is_no_source(tmp_path, name, text, words):
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=words):
        new(tmp_path / name)


def test_the_command(source, tmp_path):
    path = source("vector_add.cu")
    result = CliRunner().invoke(app, ["new", str(path), "--output", str(tmp_path / "add.yaml")])
    assert result.exit_code == 0
    assert "1 line is marked TODO" in result.output
    assert (tmp_path / "add.yaml").is_file()


def test_includes_and_flags_stand_in_the_file_and_it_runs(tmp_path):
    kernel = (
        "__global__ void add(real *y, const real *x) { int i = threadIdx.x + N * blockIdx.x; y[i] = x[i] + ONE; }\n"
    )
    files = {
        "src/k.cu": '#include "../common/add.cuh"\nvoid run(real *y, real *x) { add<<<4, N>>>(y, x); }\n',
        "common/add.cuh": f"#include <types.h>\n{kernel}",
        "include/types.h": "typedef float real;\n",
        "Makefile": "k.o: src/k.cu\n\tnvcc -Iinclude -DN=64 -DONE=1.0f -c $< -o $@\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    target = new(tmp_path / "src" / "k.cu")
    data = yamlfile.parse(target.read_text(), target).data
    assert (data["kernel"], data["root"], data["include"]) == ("add", "..", ["../include"])
    assert data["options"] == ["-DN=64", "-DONE=1.0f"]
    assert data["arguments"]["x"].startswith("float32[")  # the header's type
    assert "parameters" not in data  # the flags give the macros their values
    (planned,) = variants(target)
    assert "add.f32" in build(planned.toolchain, planned.request).build.ptx


def test_a_header_gets_a_file(tmp_path):
    (tmp_path / "k.cuh").write_text("__global__ void k(float *x) { x[threadIdx.x] = 1; }")
    assert "source: k.cuh\n" in new(tmp_path / "k.cuh").read_text()


def test_the_kernels_that_the_host_launches_are_drafted_together(tmp_path):
    kernel = "__global__ void {}(float *x, int n) {{ if (threadIdx.x < n) x[threadIdx.x] = 1; }}\n"
    host = "int main() { float *p; b<<<1, 64>>>(p, 9); a<<<1, 64>>>(p, 9); }\n"
    path = tmp_path / "k.cu"
    path.write_text(kernel.format("a") + kernel.format("b") + kernel.format("c") + host)
    assert [one.name for one in choose_launched(read_sources(path), None)] == ["b", "a"]
    assert [one.name for one in choose_launched(read_sources(path), "c")] == ["c"]
    path.write_text(kernel.format("a") + kernel.format("b") + host.replace("b<<<1, 64>>>(p, 9); ", ""))
    assert [one.name for one in choose_launched(read_sources(path), None)] == ["a"]
    path.write_text(kernel.format("a") + kernel.format("b"))
    with pytest.raises(UserError, match="several kernels"):
        choose_launched(read_sources(path), None)


def test_a_triton_function_is_drafted_without_its_helpers(tmp_path):
    source = tmp_path / "k.py"
    source.write_text(
        "import triton\nraise SystemExit\n@triton.jit\ndef half(x):\n    return x / 2\n@triton.jit\n"
        "def scale(x, n, B: tl.constexpr):\n    tl.store(x, half(tl.load(x)))\n"
    )
    assert new(source).read_text(encoding="utf-8").splitlines()[1] == "source: k.py:scale"
    source.write_text("@triton.jit\ndef a(x):\n    pass\n@triton.jit\ndef b(x):\n    pass\n")
    with pytest.raises(UserError) as caught:
        new(source, force=True)
    assert (caught.value.key, caught.value.accepted) == ("--kernel", ["a", "b"])
    with pytest.raises(UserError) as caught:
        new(source, kernel="c", force=True)
    assert caught.value.found == "c"
