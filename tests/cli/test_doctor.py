from __future__ import annotations

import sys
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import pytest

from lab.cli import doctor
from lab.cli.doctor import DoctorDriver, DoctorGpu, Probes, examine
from lab.toolchain.nvrtc.compiler import Nvrtc

NAMES = [
    "Python",
    "NVRTC",
    "CUDA headers",
    "CCCL",
    "CUTLASS",
    "nvdisasm",
    "nvJitLink",
    "Triton",
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
    "calibration",
]


CALIBRATION = """schema: 1
gpus:
  NVIDIA H200:
    date: "2026-11-23T05:00:00+00:00"
    driver: "580.159"
    lab: "0.1.0"
    arch: sm_90
    clock_mhz: 1980
    sms: 132
    l2_bytes: 62914560
    constants:
      l2_slices: {value: 70.4, unit: slices, spread: 0.01, n: 10, experiment: atomics_global}
"""
IDS = [f"GPU-{place:02x}000000-0000-0000-0000-000000000000" for place in range(2)]
H200S = DoctorDriver("13.2", (DoctorGpu("NVIDIA H200", "sm_90", IDS[0]), DoctorGpu("NVIDIA H200 NVL", "sm_90", IDS[1])))


def machine(tmp_path, **answers):
    nothing = {
        "package": lambda _: None,
        "which": lambda _: None,
        "tool_version": lambda _: None,
        "driver": lambda: None,
        "read": lambda _: None,
        "toolkits": lambda: (),
        "nvcc": lambda: None,
        "tool": lambda _: None,
        "headers": lambda: None,
        "cutlass": lambda: None,
        "nvrtcs": lambda: (),
        "nvjitlinks": lambda: (),
        "environment": lambda _: None,
        "cache": lambda: tmp_path / "cache",
        "calibration": lambda: tmp_path / "calibration.yaml",
    }
    assert set(nothing) == {field.name for field in fields(Probes)}
    return Probes(**{**nothing, **answers})


def look(machine):
    return {finding.name: finding for finding in examine(machine)}


def test_this_machine():
    findings = examine()
    assert [finding.name for finding in findings] == NAMES
    by_name = {finding.name: finding for finding in findings}
    for name in ("Python", "NVRTC", "CUDA headers", "CCCL", "CUTLASS", "nvdisasm", "nvJitLink", "cache"):
        assert by_name[name].found, by_name[name]
        assert by_name[name].install == ""


def test_a_bare_machine(tmp_path):
    findings = look(machine(tmp_path))
    assert list(findings) == NAMES
    assert {name for name, finding in findings.items() if finding.found} == {"Python", "cache"}
    for name, finding in findings.items():
        assert finding.adds
        assert finding.found or finding.install, name
    assert findings["PyCUDA"].install == "python -m pip install -e '.[gpu]'"
    assert findings["cuBLAS"].install == "python -m pip install nvidia-cublas"


def test_a_full_machine(tmp_path):
    (tmp_path / "include" / "cccl").mkdir(parents=True)
    (tmp_path / "include" / "cuda_runtime_api.h").write_text("#define CUDART_VERSION 13000\n")
    (tmp_path / "lib64").mkdir()
    (tmp_path / "lib64" / "libcublas.so.13").touch()
    (tmp_path / "calibration.yaml").write_text(CALIBRATION)
    (tmp_path / "cutlass").mkdir()
    (tmp_path / "cutlass" / "version.h").write_text(
        "#define CUTLASS_MAJOR 4\n#define CUTLASS_MINOR 2\n#define CUTLASS_PATCH 0\n"
    )
    versions = {"pycuda": "2026.1", "nvidia-ml-py": "13.1.0", "torch": "2.11.0"}
    versions |= {"triton": "3.4.0", "nvidia-cuda-cccl": "13.0.1"}
    findings = look(
        machine(
            tmp_path,
            package=versions.get,
            which=lambda name: f"/usr/bin/{name}",
            tool_version=lambda _: "13.0.88",
            driver=lambda: H200S,
            read=lambda path: (
                "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Release Build\n"
                if path == Path("/proc/driver/nvidia/version")
                else None
            ),
            toolkits=lambda: (tmp_path,),
            nvcc=lambda: Path("/usr/bin/nvcc"),
            tool=lambda name: Path("/opt", name),
            headers=lambda: tmp_path / "include",
            cutlass=lambda: tmp_path,
            nvjitlinks=lambda: [Path("/opt/libnvJitLink.so.13")],
            nvrtcs=lambda: [Nvrtc(Path(), version, ("sm_75", "sm_121")) for version in ("13.5.37", "12.9.86")],
        )
    )
    assert all(finding.found and not finding.install for finding in findings.values())
    assert findings["NVRTC"].detail == "13.5.37, sm_75 to sm_121; also 12.9.86"
    assert findings["CUDA headers"].detail == f"13.0 in {tmp_path / 'include'}"
    assert findings["CUTLASS"].detail == f"4.2.0 in {tmp_path}"
    assert findings["nvcc"].detail == "13.0.88, /usr/bin/nvcc"
    assert findings["driver"].detail == "580.159.04, CUDA 13.2"
    assert findings["GPU"].detail == (
        f"GPU 0: NVIDIA H200 (sm_90, {IDS[0]}); GPU 1: NVIDIA H200 NVL (sm_90, {IDS[1]}); a run measures on GPU 0, "
        "with --cluster local and --gpu-model on all of one model; CUDA_VISIBLE_DEVICES selects the visible ones"
    )
    assert findings["cuBLAS"].detail == f"torch 2.11.0, libcublas in {tmp_path}"


def test_the_calibration_in_use_is_named_and_a_damaged_one_says_why(tmp_path):
    file = tmp_path / "calibration.yaml"
    file.write_text(CALIBRATION)
    finding = look(machine(tmp_path))["calibration"]
    assert finding.detail == f"NVIDIA H200 of 2026-11-23, 1 constants; {file}"
    file.write_text(CALIBRATION.replace("schema: 1", "schema: 7"))
    finding = look(machine(tmp_path))["calibration"]
    assert not finding.found
    assert f"{file}:1" in finding.detail
    assert finding.install.endswith("lab calibrate")


def test_pycuda_needs_a_driver(tmp_path):
    finding = look(machine(tmp_path, package={"pycuda": "2026.1"}.get))["PyCUDA"]
    assert not finding.found
    assert finding.detail == "2026.1, which needs a driver"
    assert "nvidia-driver" in finding.install


def test_several_gpus_of_one_model_can_all_be_used_and_a_single_one_needs_no_words(tmp_path):
    one = DoctorGpu("NVIDIA H200", "sm_90", IDS[0])
    alike = DoctorDriver("13.2", (one, DoctorGpu("NVIDIA H200", "sm_90", IDS[1])))
    assert "with --cluster local on all;" in look(machine(tmp_path, driver=lambda: alike))["GPU"].detail
    single = look(machine(tmp_path, driver=lambda: DoctorDriver("13.2", (one,))))["GPU"].detail
    assert single == f"GPU 0: NVIDIA H200 (sm_90, {IDS[0]})"


def test_a_driver_without_gpus(tmp_path):
    findings = look(machine(tmp_path, driver=lambda: DoctorDriver("13.2", ())))
    assert findings["driver"].detail == "CUDA 13.2"
    assert (findings["GPU"].found, findings["GPU"].detail) == (False, "the driver reports no GPU")


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


@pytest.mark.parametrize("field", [field.name for field in fields(Probes)])
def test_nothing_raises(tmp_path, field):
    def broken(*_):
        raise RuntimeError("broken\nin two lines")

    findings = look(machine(tmp_path, **{field: broken}))
    assert list(findings) == NAMES
    assert all("\n" not in finding.detail for finding in findings.values())


def bindings(gpus=("NVIDIA H200",), *, init=0, loaded=True):
    """The module `cuda.bindings.driver` of a machine with these GPUs."""

    class Code(int):
        name = "CUDA_ERROR_NO_DEVICE"

    def status(code, *values):
        return (Code(code), *values)

    def version():
        if not loaded:
            raise RuntimeError("Failed to dlopen libcuda.so.1")
        return status(0, 13020)

    def refuse(flags):
        return status(init)

    return SimpleNamespace(
        cuDriverGetVersion=version,
        cuInit=refuse,
        cuDeviceGetCount=lambda: status(0, len(gpus)),
        cuDeviceGet=lambda ordinal: status(0, ordinal),
        cuDeviceGetName=lambda size, device: status(0, gpus[device].encode().ljust(size, b"\0")),
        cuDeviceGetUuid=lambda device: status(0, SimpleNamespace(bytes=bytes([device, *[0] * 15]))),
        cuDeviceGetAttribute=lambda kind, device: status(0, kind),
        CUdevice_attribute=SimpleNamespace(
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR=9, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR=0
        ),
    )


def driver_of(monkeypatch, module):
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", module)
    return doctor.find_driver()


def test_the_driver_is_asked_through_its_bindings(monkeypatch):
    driver = driver_of(monkeypatch, bindings(("NVIDIA H200", "NVIDIA H200 NVL")))
    assert driver == H200S


def test_a_driver_that_refuses_to_start_has_a_version_and_no_gpus(monkeypatch):
    assert driver_of(monkeypatch, bindings(init=100)) == DoctorDriver("13.2", ())
    assert driver_of(monkeypatch, bindings(())) == DoctorDriver("13.2", ())


def test_a_machine_without_libcuda_or_without_the_bindings_has_no_driver(monkeypatch):
    assert driver_of(monkeypatch, bindings(loaded=False)) is None
    assert driver_of(monkeypatch, None) is None  # importing it fails


def test_what_plain_kernels_ptx_and_triton_functions_need(tmp_path):
    packages = {"nvidia-cuda-cccl": "13.0.1", "nvidia-nvjitlink": "13.2.0", "triton": "3.4.0"}
    library = tmp_path / "libnvJitLink.so.13"
    findings = look(machine(tmp_path, package=packages.get, nvjitlinks=lambda: (library,)))
    assert findings["CCCL"].detail == "13.0.1"
    assert findings["nvJitLink"].detail == f"13.2.0, {library}"
    assert findings["Triton"].detail == "3.4.0"
    missing = look(machine(tmp_path))
    assert [missing[name].install for name in ("CCCL", "nvJitLink", "Triton")] == [
        "python -m pip install nvidia-cuda-cccl",
        "python -m pip install nvidia-nvjitlink",
        "python -m pip install -e '.[triton]'",
    ]


def test_triton_of_another_environment(tmp_path):
    named = {"environment": lambda name: "/other/python" if name == "LAB_TRITON_PYTHON" else None}
    finding = look(machine(tmp_path, which=lambda path: path, **named))["Triton"]
    assert (finding.found, finding.detail) == (True, "of /other/python (LAB_TRITON_PYTHON)")
    assert not look(machine(tmp_path, **named))["Triton"].found
