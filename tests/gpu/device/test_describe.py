import subprocess
import sys

import pytest

from lab.gpu.device import describe
from lab.measured.timing import CardState, GpuDescription


def test_throttle_reasons_by_name_without_idle():
    assert describe.throttle_reasons(0x1) == ()
    assert describe.throttle_reasons(0x4 | 0x20 | 0x1) == ("SwPowerCap", "SwThermalSlowdown")
    assert describe.throttle_reasons(0x4000) == ("0x4000",)


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
    monkeypatch.setattr(describe.importlib.util, "find_spec", lambda name: None)
    words = describe.probe()
    assert "NVIDIA H200" in words
    assert "pip install pycuda" in words


def test_without_nvml_a_cards_state_is_unknown(monkeypatch):
    def absent(name):
        raise ImportError(name)

    monkeypatch.setattr(describe.importlib, "import_module", absent)
    assert describe.Card("0000:00:00.0").state() == CardState()


class FakeNvml:
    """Answers some questions and refuses others, as cards do."""

    class NVMLError(Exception):
        pass

    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    def nvmlInit(self):  # noqa: N802 - NVML's names
        pass

    def nvmlDeviceGetHandleByPciBusId(self, bus_id):  # noqa: N802
        assert bus_id == b"0000:1b:00.0"
        return "handle"

    def nvmlDeviceGetClockInfo(self, handle, kind):  # noqa: N802
        return {1: 1980, 2: 3201}[kind]

    def nvmlDeviceGetPowerUsage(self, handle):  # noqa: N802
        return 612_345

    def nvmlDeviceGetTemperature(self, handle, sensor):  # noqa: N802
        raise self.NVMLError

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle):  # noqa: N802 - the older name alone
        return 0x4

    def nvmlSystemGetDriverVersion(self):  # noqa: N802
        return "580.159.04"


def test_nvmls_answers_are_in_the_records_units(monkeypatch):
    monkeypatch.setattr(describe.importlib, "import_module", lambda name: FakeNvml())
    card = describe.Card("0000:1b:00.0")
    assert card.state() == CardState(1980, 3201, 612.345, None, ("SwPowerCap",))
    assert card.driver_version() == "580.159.04"
    assert card.max_sm_clock() is None
