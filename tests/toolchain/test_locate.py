from __future__ import annotations

import os

import pytest

from lab.toolchain import locate

pytestmark = pytest.mark.skipif(os.name != "posix", reason="stand-ins are shell scripts")


def script(path, text="#!/bin/sh\necho 'release 12.4, V12.4.131'\n"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_the_order_in_which_nvcc_is_sought(tmp_path, monkeypatch):
    monkeypatch.setattr(locate, "_in_wheels", lambda name: iter([tmp_path / "wheel" / name]))
    default = tmp_path / "default"
    home, path, toolkit, on_path, standard = ({"CUDA_PATH": str(tmp_path / "b")}, {}, None, None, None)
    assert locate.nvcc(path, default) == tmp_path / "wheel" / "nvcc"
    standard = script(default / "bin" / "nvcc")
    assert locate.nvcc(path, default) == standard
    on_path = script(tmp_path / "p" / "nvcc")
    path = {"PATH": str(tmp_path / "p")}
    assert locate.nvcc(path, default) == on_path
    toolkit = script(tmp_path / "b" / "bin" / "nvcc")
    assert locate.nvcc({**path, **home}, default) == toolkit
    first = script(tmp_path / "a" / "bin" / "nvcc")
    assert locate.nvcc({**path, **home, "CUDA_HOME": str(tmp_path / "a")}, default) == first


def test_no_nvcc(tmp_path, monkeypatch):
    monkeypatch.setattr(locate, "_in_wheels", lambda _: iter(()))
    assert locate.nvcc({"PATH": str(tmp_path), "CUDA_HOME": str(tmp_path / "gone")}, tmp_path) is None


def test_a_tool_of_a_wheel_comes_before_a_toolkits(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    inside = script(tmp_path / "bin" / "nvdisasm")
    monkeypatch.setattr(locate, "_in_wheels", lambda name: iter([tmp_path / "wheel" / name]))
    assert locate.tool("nvdisasm") == tmp_path / "wheel" / "nvdisasm"
    monkeypatch.setattr(locate, "_in_wheels", lambda _: iter(()))
    assert locate.tool("nvdisasm") == inside
    assert locate.tool("no-such-tool") is None


def test_versions(tmp_path):
    assert locate.tool_version(script(tmp_path / "good")) == "12.4.131"
    assert locate.tool_version(script(tmp_path / "silent", "#!/bin/sh\n")) is None
    assert locate.tool_version(script(tmp_path / "failing", "#!/bin/sh\necho V1.2.3; exit 1\n")) is None
    assert locate.tool_version(tmp_path / "missing") is None


def test_the_version_of_headers(tmp_path):
    (tmp_path / "cuda_runtime_api.h").write_text("#define CUDART_VERSION  12040\n")
    assert locate.headers_version(tmp_path) == "12.4"
    (tmp_path / "cuda_runtime_api.h").write_text("")
    assert locate.headers_version(tmp_path) == "unknown"


def test_the_headers_here_are_whole():
    folder = locate.headers()
    assert folder is not None
    assert (folder / "cuda_fp16.h").is_file()


@pytest.mark.parametrize(
    ("printed", "version"),
    [
        ("Cuda compilation tools, release 13.5, V13.5.37\nBuild cuda_13.5", "13.5.37"),
        ("NVIDIA (R) Nsight Compute Command Line Profiler\nVersion 2025.3.1.0 (build 36398880)", "2025.3.1.0"),
        ("nothing that looks like one", None),
    ],
)
def test_versions_of_compilers_and_profilers(tmp_path, printed, version):
    tool = tmp_path / "tool"
    tool.write_text(f"#!/bin/sh\ncat <<'END'\n{printed}\nEND\n")
    tool.chmod(0o755)
    assert locate.tool_version(tool) == version
