import importlib.util
import subprocess
import sys

import pytest

from lab.gpu.device import describe
from lab.measured.timing import GpuDescription


@pytest.mark.parametrize(("number", "words"), [(13000, "13.0"), (12080, "12.8"), (11040, "11.4")])
def test_cuda_versions(number, words):
    assert describe.cuda_version(number) == words


def test_importing_the_package_and_the_session_imports_no_gpu_library():
    code = (
        "import sys, lab.gpu, lab.gpu.process.session\n"
        "print([name for name in sys.modules if name.split('.')[0] in {'pycuda', 'pynvml', 'cuda', 'torch'}])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_a_machine_without_a_driver_says_so(monkeypatch):
    def absent():
        raise RuntimeError("there is no NVIDIA driver on this machine")

    monkeypatch.setattr(describe, "driver_api", absent)
    assert describe.probe() == "Nothing was measured: there is no NVIDIA driver on this machine."


def test_a_gpu_without_pycuda_names_the_command(monkeypatch):
    gpu = GpuDescription("NVIDIA H200", "sm_90", 132, 1980, 1, 1, "", "13.0")
    monkeypatch.setattr(describe, "describe_device", lambda ordinal: gpu)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    words = str(describe.probe())
    assert "NVIDIA H200" in words
    assert "pip install pycuda" in words
