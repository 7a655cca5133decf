"""NVML's answers, with an NVML that is played."""

import importlib

from lab.gpu.device import card as cards
from lab.measured.timing import CardState


def test_throttle_reasons_by_name_without_idle():
    assert cards.throttle_reasons(0x1) == ()
    assert cards.throttle_reasons(0x4 | 0x20 | 0x1) == ("SwPowerCap", "SwThermalSlowdown")
    assert cards.throttle_reasons(0x4000) == ("0x4000",)


def test_without_nvml_a_cards_state_is_unknown(monkeypatch):
    def absent(name):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", absent)
    assert cards.CardSensors("0000:00:00.0").state() == CardState()


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
    monkeypatch.setattr(importlib, "import_module", lambda name: FakeNvml())
    card = cards.CardSensors("0000:1b:00.0")
    assert card.state() == CardState(1980, 3201, 612.345, None, ("SwPowerCap",))
    assert card.driver_version() == "580.159.04"
    assert card.max_sm_clock() is None
