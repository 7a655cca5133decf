from __future__ import annotations

import ctypes
from dataclasses import fields
from pathlib import Path

import pytest

from lab.cli.doctor import Machine, examine
from lab.toolchain.nvrtc.compiler import Nvrtc

NAMES = [
    "Python",
    "NVRTC",
    "CUDA headers",
    "nvdisasm",
    "nvcc",
    "host compiler",
    "PyCUDA",
    "NVML",
    "driver",
    "GPU",
    "cuBLAS",
    "ncu",
    "compute-sanitizer",
    "cache",
]


class FakeCuda:
    """libcuda of a machine with GPUs of the given names; writes through the pointers as the driver does."""

    def __init__(self, gpus=("NVIDIA H200",), init=0):
        self.gpus, self.init = gpus, init

    def cuDriverGetVersion(self, version):  # noqa: N802 - the driver's name
        version._obj.value = 13020
        return 0

    def cuInit(self, flags):  # noqa: N802
        assert flags == 0
        return self.init

    def cuDeviceGetCount(self, count):  # noqa: N802
        count._obj.value = len(self.gpus)
        return 0

    def cuDeviceGet(self, device, index):  # noqa: N802
        device._obj.value = index
        return 0

    def cuDeviceGetName(self, name, size, device):  # noqa: N802
        ctypes.memmove(name, self.gpus[device.value].encode() + b"\0", min(size, 200))
        return 0

    def cuDeviceGetAttribute(self, value, attribute, device):  # noqa: N802
        assert 0 <= device.value < len(self.gpus)
        value._obj.value = {75: 9, 76: 0}[attribute]
        return 0


def no_driver():
    raise OSError("libcuda.so.1: cannot open shared object file")


def machine(tmp_path, **answers):
    nothing = {
        "package": lambda _: None,
        "which": lambda _: None,
        "tool_version": lambda _: None,
        "load_driver": no_driver,
        "read": lambda _: None,
        "toolkits": lambda: (),
        "nvcc": lambda: None,
        "tool": lambda _: None,
        "headers": lambda: None,
        "nvrtcs": lambda: (),
        "cache": lambda: tmp_path / "cache",
    }
    assert set(nothing) == {field.name for field in fields(Machine)}
    return Machine(**{**nothing, **answers})


def look(machine):
    return {finding.name: finding for finding in examine(machine)}


def test_this_machine():
    findings = examine()
    assert [finding.name for finding in findings] == NAMES
    by_name = {finding.name: finding for finding in findings}
    for name in ("Python", "NVRTC", "CUDA headers", "nvdisasm", "cache"):
        assert by_name[name].found, by_name[name]
        assert by_name[name].install == ""


def test_a_bare_machine(tmp_path):
    found = look(machine(tmp_path))
    assert list(found) == NAMES
    assert {name for name, finding in found.items() if finding.found} == {"Python", "cache"}
    for name, finding in found.items():
        assert finding.adds
        assert finding.found or finding.install, name
    assert found["PyCUDA"].install == "python -m pip install -e '.[gpu]'"
    assert found["cuBLAS"].install == "python -m pip install nvidia-cublas"


def test_a_full_machine(tmp_path):
    (tmp_path / "include" / "cccl").mkdir(parents=True)
    (tmp_path / "include" / "cuda_runtime_api.h").write_text("#define CUDART_VERSION 13000\n")
    (tmp_path / "lib64").mkdir()
    (tmp_path / "lib64" / "libcublas.so.13").touch()
    versions = {"pycuda": "2026.1", "nvidia-ml-py": "13.1.0", "torch": "2.11.0"}
    found = look(
        machine(
            tmp_path,
            package=versions.get,
            which=lambda name: f"/usr/bin/{name}",
            tool_version=lambda _: "13.0.88",
            load_driver=lambda: FakeCuda(("NVIDIA H200", "NVIDIA H200 NVL")),
            read=lambda path: (
                "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Release Build\n"
                if path == Path("/proc/driver/nvidia/version")
                else None
            ),
            toolkits=lambda: (tmp_path,),
            nvcc=lambda: Path("/usr/bin/nvcc"),
            tool=lambda name: Path("/opt", name),
            headers=lambda: tmp_path / "include",
            nvrtcs=lambda: [Nvrtc(Path(), version, ("sm_75", "sm_121")) for version in ("13.5.37", "12.9.86")],
        )
    )
    assert all(finding.found and not finding.install for finding in found.values())
    assert found["NVRTC"].detail == "13.5.37, sm_75 to sm_121; also 12.9.86"
    assert found["CUDA headers"].detail == f"13.0 in {tmp_path / 'include'}"
    assert found["nvcc"].detail == "13.0.88, /usr/bin/nvcc"
    assert found["driver"].detail == "580.159.04, CUDA 13.2"
    assert found["GPU"].detail == "NVIDIA H200 (sm_90), NVIDIA H200 NVL (sm_90)"
    assert found["cuBLAS"].detail == f"torch 2.11.0, libcublas in {tmp_path}"


def test_pycuda_needs_a_driver(tmp_path):
    finding = look(machine(tmp_path, package={"pycuda": "2026.1"}.get))["PyCUDA"]
    assert not finding.found
    assert finding.detail == "2026.1, which needs a driver"
    assert "nvidia-driver" in finding.install


@pytest.mark.parametrize("cuda", [FakeCuda(()), FakeCuda(init=100)])
def test_a_driver_without_gpus(tmp_path, cuda):
    found = look(machine(tmp_path, load_driver=lambda: cuda))
    assert found["driver"].detail == "CUDA 13.2"
    assert (found["GPU"].found, found["GPU"].detail) == (False, "the driver sees none")


def test_torch_for_the_cpu_is_no_baseline(tmp_path):
    assert not look(machine(tmp_path, package={"torch": "2.11.0+cpu"}.get))["cuBLAS"].found


def test_a_tool_that_does_not_run(tmp_path):
    finding = look(machine(tmp_path, tool=lambda name: Path("/opt", name)))["nvdisasm"]
    assert (finding.found, finding.detail) == (False, "/opt/nvdisasm does not run")
    assert finding.install


def test_a_cache_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    finding = look(machine(tmp_path, cache=lambda: tmp_path / "file" / "cache"))["cache"]
    assert not finding.found
    assert "cannot be written" in finding.detail
    assert "LAB_CACHE_DIR" in finding.install


def test_the_cache_is_weighed(tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "a.entry").write_bytes(bytes(2_500_000))
    (tmp_path / "cache" / "b.part").write_bytes(bytes(10))
    assert look(machine(tmp_path))["cache"].detail.endswith("1 builds, 2.5 MB")


@pytest.mark.parametrize("field", [field.name for field in fields(Machine)])
def test_nothing_raises(tmp_path, field):
    def broken(*_):
        raise RuntimeError("broken\nin two lines")

    found = look(machine(tmp_path, **{field: broken}))
    assert list(found) == NAMES
    assert all("\n" not in finding.detail for finding in found.values())
