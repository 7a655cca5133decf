from __future__ import annotations

import sys

import pytest
from cuda import pathfinder

from lab.toolchain import locate


def script(path, text="#!/bin/sh\necho 'release 12.4, V12.4.131'\n"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_the_order_in_which_nvcc_is_sought(tmp_path, monkeypatch):
    wheel = tmp_path / "wheel" / "nvcc"
    monkeypatch.setattr(locate, "_in_wheels", lambda name: iter([wheel]))
    default = tmp_path / "default"
    home = {"CUDA_PATH": str(tmp_path / "b")}
    path: dict[str, str] = {}
    assert locate.nvccs(path, default) == (wheel,)
    older = script(tmp_path / "default-11.8" / "bin" / "nvcc")
    standard = script(default / "bin" / "nvcc")
    assert locate.nvccs(path, default) == (standard, older, wheel)
    on_path = script(tmp_path / "p" / "nvcc")
    path = {"PATH": str(tmp_path / "p")}
    assert locate.nvccs(path, default) == (on_path, standard, older, wheel)
    toolkit = script(tmp_path / "b" / "bin" / "nvcc")
    assert locate.nvccs({**path, **home}, default)[:2] == (toolkit, on_path)
    first = script(tmp_path / "a" / "bin" / "nvcc")
    named = {**path, **home, "CUDA_HOME": str(tmp_path / "a")}
    assert locate.nvccs(named, default) == (first, toolkit, on_path, standard, older, wheel)


def test_no_nvcc(tmp_path, monkeypatch):
    monkeypatch.setattr(locate, "_in_wheels", lambda _: iter(()))
    assert locate.nvccs({"PATH": str(tmp_path), "CUDA_HOME": str(tmp_path / "gone")}, tmp_path) == ()


def library(folder, major, *releases):
    folder.mkdir(parents=True, exist_ok=True)
    for name in (f"libnvrtc.so.{major}", *(f"libnvrtc-builtins.so.{release}" for release in releases)):
        (folder / name).write_bytes(b"")
    return folder / f"libnvrtc.so.{major}"


def test_every_nvrtc_is_found_the_environments_first_and_the_newest_of_them(tmp_path, monkeypatch):
    monkeypatch.setattr(locate, "_DEFAULT_TOOLKIT", tmp_path / "cuda")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site")])
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    monkeypatch.setattr(locate, "_DEBIAN", tmp_path / "debian")
    monkeypatch.setenv("LAB_COMPILERS", str(tmp_path / "beside"))
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    assert locate.nvrtcs() == ()
    shared = tmp_path / "site" / "nvidia" / "cuda_nvrtc" / "lib"  # the wheels of CUDA 11 and 12 share a folder
    eleven = library(shared, "11.2", "11.8")
    twelve = library(shared, "12", "12.9")
    thirteen = library(tmp_path / "site" / "nvidia" / "cu13" / "lib", "13", "13.5")
    other = library(tmp_path / "beside" / "12.4" / "nvidia" / "cuda_nvrtc" / "lib", "12", "12.4")
    toolkit = library(tmp_path / "cuda-13.1" / "lib64", "13.1.80", "13.1", "13.1.80")
    (toolkit.parent / "libnvrtc.so.13").symlink_to(toolkit)
    (tmp_path / "cuda").symlink_to(tmp_path / "cuda-13.1")
    bare = library(tmp_path / "prefix" / "lib", "12")
    libraries = locate.nvrtcs()
    assert [(library.path.resolve(), library.release) for library in libraries] == [
        (thirteen, "13.5"), (twelve, "12.9"), (eleven, "11.8"), (other, "12.4"), (toolkit, "13.1"), (bare, ""),
    ]  # fmt: skip
    assert [library.release for library in libraries if library.may_be("12.9.86")] == ["12.9", ""]
    assert [library.release for library in libraries if library.may_be("12")] == ["12.9", "12.4", ""]
    assert all(library.may_be("") for library in libraries)


def headers_of(folder, number, *, crt=False):
    (folder / "crt" if crt else folder).mkdir(parents=True, exist_ok=True)
    (folder / "cuda_runtime_api.h").write_text(f"#define CUDART_VERSION {number}\n")
    return folder


def test_a_compiler_gets_headers_of_its_own_major_version(tmp_path, monkeypatch):
    wheel = headers_of(tmp_path / "site" / "include", 13050, crt=True)
    monkeypatch.setattr(pathfinder, "find_nvidia_header_directory", lambda _: str(wheel))
    monkeypatch.setattr(locate, "toolkits", lambda: (tmp_path / "toolkit",))
    beside = tmp_path / "12.4" / "nvidia" / "cuda_nvrtc" / "lib" / "libnvrtc.so.12"
    assert locate.headers() == locate.headers("13.5.37") == locate.headers("13.0.1") == wheel
    assert locate.headers("12.4.1", beside) is None
    toolkit = headers_of(tmp_path / "toolkit" / "include", 12090)
    assert locate.headers("12.4.1", beside) == toolkit
    own = headers_of(tmp_path / "12.4" / "nvidia" / "cuda_runtime" / "include", 12040)
    assert locate.headers("12.4.1", beside) == own


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


def test_the_version_of_cutlass(tmp_path):
    (tmp_path / "cutlass").mkdir()
    (tmp_path / "cutlass" / "version.h").write_text("#define CUTLASS_MAJOR 4\n#define CUTLASS_MINOR 2\n")
    assert locate.cutlass_version(tmp_path) == "4.2.?"
    folder = locate.cutlass()
    assert folder is not None
    assert (folder / "cute" / "tensor.hpp").is_file()
    assert all(part.isdigit() for part in locate.cutlass_version(folder).split("."))


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


def test_a_driver_is_here_if_its_library_loads():
    assert locate.has_driver("libc.so.6")
    assert not locate.has_driver("libcuda-that-is-not-there.so.1")


def test_nvjitlinks_of_wheels_come_before_those_of_toolkits(monkeypatch, tmp_path):
    for place in ("site/nvidia/cu13/lib", "toolkit/lib64"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "libnvJitLink.so.13").touch()
    monkeypatch.setattr("sys.path", [str(tmp_path / "site")])
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "toolkit"))
    monkeypatch.setenv("LAB_COMPILERS", str(tmp_path / "none"))
    libraries = locate.nvjitlinks()
    assert libraries[0] == tmp_path / "site/nvidia/cu13/lib/libnvJitLink.so.13"
    assert libraries[1] == tmp_path / "toolkit/lib64/libnvJitLink.so.13"
