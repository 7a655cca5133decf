from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mistakes import coded

from lab.base.errors import UserError
from lab.hardware import calibration
from lab.hardware.calibration import (
    CONSTANTS,
    Calibration,
    MeasuredConstant,
    calibrated,
    known_gpu,
    read,
    text_of,
    write,
)
from lab.hardware.gpus import ARCHITECTURES, gpu_for
from lab.hardware.latencies import SmLatencies

GOOD = """schema: 1
gpus:
  "NVIDIA H200":
    date: "2026-11-23T05:00:00+00:00"
    driver: "580.159"
    lab: "0.1.0"
    arch: sm_90
    clock_mhz: 1980
    sms: 132
    l2_bytes: 62914560
    constants:
      launch: {value: 3.18074, unit: "µs", spread: 0.01, n: 10, experiment: launch}
      integer_lanes: {value: 60.0, unit: lanes a cycle and SM, spread: 0.01, n: 10, experiment: pipes}
      l2_slices: {value: 70.4, unit: slices, spread: 0.01, n: 10, experiment: atomics_global}
      dram_copy: {value: 4000.0, unit: GB/s, spread: 0.01, n: 10, experiment: block_tail}
      dependent_shared_load: {value: 59.9352, unit: cycles, spread: 0.01, n: 10, experiment: pipes}
"""


def a_constant(name: str, value: float | None = None, spread: float = 0.01) -> MeasuredConstant:
    known = CONSTANTS[name]
    middle = known.least if value is None else value
    return MeasuredConstant(value=middle, unit=known.unit, spread=spread, n=3, experiment="pipes")


def a_calibration(**constants: MeasuredConstant) -> Calibration:
    return Calibration(
        date="2026-11-23T05:00:00+00:00",
        driver="1",
        lab="2",
        arch="sm_90",
        clock_mhz=1980,
        sms=9,
        l2_bytes=5,
        constants=constants,
    )


@st.composite
def calibrations(draw: st.DrawFn) -> Calibration:
    chosen = draw(st.sets(st.sampled_from(sorted(CONSTANTS)), max_size=5))
    spreads = st.floats(0, 10)
    constants = {
        name: a_constant(name, draw(st.floats(CONSTANTS[name].least, CONSTANTS[name].most)), draw(spreads))
        for name in sorted(chosen)
    }
    words = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=12)
    return Calibration(
        date=draw(words), driver=draw(words), lab=draw(words), arch=draw(st.sampled_from(sorted(ARCHITECTURES))),
        clock_mhz=draw(st.integers(1, 5000)), sms=draw(st.integers(1, 500)), l2_bytes=draw(st.integers(0, 2**40)),
        constants=constants,
    )  # fmt: skip


@settings(max_examples=25)
@given(found=st.dictionaries(st.text(min_size=1, max_size=12), calibrations(), max_size=2))
def test_what_is_written_is_read_again(found: dict[str, Calibration], tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.getbasetemp() / "round.yaml"
    file.write_text(text_of(found), encoding="utf-8")
    assert read(file) == found


def test_every_constant_sets_a_field_that_there_is_once() -> None:
    names = [one.sets for one in CONSTANTS.values() if one.sets]
    assert len(set(names)) == len(names)
    assert set(names) <= set(SmLatencies.__dataclass_fields__)
    assert all(one.least < one.most for one in CONSTANTS.values())
    assert all(one.least <= one.reference <= one.most for one in CONSTANTS.values() if one.reference)


def test_a_calibration_replaces_what_it_measured_and_scales_what_was_fitted(tmp_path: Path) -> None:
    file, gpu = tmp_path / "calibration.yaml", gpu_for("H200")
    file.write_text(GOOD, encoding="utf-8")
    calibrated_gpu = calibrated(gpu, read(file))
    assert calibrated_gpu.constants == "calibrated 2026-11-23"
    assert gpu.constants == "measured on an H200"
    expected = {
        "launch_s": pytest.approx(2 * gpu.latencies.launch_s),
        "integer_lanes": 60.0,
        "l2_slices": 70,
        "dram_share": pytest.approx(4000 / 4800),
        "shared_latency": pytest.approx(48),
        "shuffle_cycles": pytest.approx(48),
    }
    assert {name: getattr(calibrated_gpu.latencies, name) for name in expected} == expected
    changed = {*expected, "source"}
    for name in set(SmLatencies.__dataclass_fields__) - changed:
        assert getattr(calibrated_gpu.latencies, name) == getattr(gpu.latencies, name), name
    assert calibrated(gpu_for("A100"), read(file)) is gpu_for("A100")


def test_a_gpu_of_no_table_takes_its_bandwidth_from_the_copy() -> None:
    unknown = replace(gpu_for("H200"), name="NVIDIA X1", dram_gb_s=None)
    calibrated_gpu = calibrated(unknown, {"NVIDIA X1": a_calibration(dram_copy=a_constant("dram_copy", 1234.0))})
    assert (calibrated_gpu.dram_gb_s, calibrated_gpu.latencies.dram_share) == (1234.0, 1.0)


@pytest.mark.parametrize("name", ["A100", "RTX 3090", "L40S", "B200", "H100 SXM"])
def test_a_gpu_that_was_never_compared_says_so(name: str) -> None:
    assert gpu_for(name).constants == "published figures, never compared with hardware"


def test_a_calibrated_gpu_of_no_table_is_known_from_then_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "calibration.yaml"
    monkeypatch.setenv("LAB_CALIBRATION", str(file))
    assert known_gpu("NVIDIA X1") is None
    write(file, "NVIDIA X1", a_calibration(dram_copy=a_constant("dram_copy", 1234.0)))
    gpu = known_gpu("NVIDIA X1")
    assert gpu is not None
    assert (gpu.sms, gpu.dram_gb_s, gpu.clock_mhz) == (9, 1234.0, 1980)
    assert gpu.constants == "calibrated 2026-11-23"


def test_another_model_stays_when_one_is_written(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "calibration.yaml"
    one, two = a_calibration(launch=a_constant("launch")), a_calibration(l1_lines=a_constant("l1_lines"))
    write(file, "B", one)
    write(file, "A", two)
    write(file, "B", two)
    assert read(file) == {"A": two, "B": two}


def test_the_file_is_read_again_when_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "calibration.yaml"
    monkeypatch.setenv("LAB_CALIBRATION", str(file))
    assert calibrated(gpu_for("H200")) is gpu_for("H200")
    file.write_text(GOOD, encoding="utf-8")
    assert calibrated(gpu_for("NVIDIA H200")).latencies.integer_lanes == 60
    file.write_text(GOOD.replace("value: 60.0", "value: 160.0"), encoding="utf-8")
    assert calibrated(gpu_for("H200")).latencies.integer_lanes == 160


@pytest.mark.parametrize(
    ("before", "after", "line", "said"),
    [
        ("schema: 1", "schema: 2", 1, ["schema", "2", "1", "lab calibrate"]),
        ("schema: 1\n", "", 1, ["schema", "nothing"]),
        ("value: 60.0", "value: -1.0", 13, ["integer_lanes.value", "-1.0", "a number from 1 to 1024"]),
        ("value: 60.0", "value: .nan", 13, ["integer_lanes.value", "nan", "a number from 1 to 1024"]),
        ("value: 60.0", "value: many", 13, ["integer_lanes.value", "many", "a number"]),
        ("unit: slices", "unit: pieces", 14, ["l2_slices.unit", "pieces", "slices"]),
        ("      l2_slices", "      l2_slice", 14, ["l2_slice", "l2_slices"]),
        ("n: 10, experiment: launch", "n: 0, experiment: launch", 12, ["launch.n", "0"]),
        ("    clock_mhz: 1980\n", "", 3, ["clock_mhz", "missing"]),
        ("}\n      integer", "\n      integer", None, ["not YAML"]),
    ],
)
def test_a_bad_file_ends_with_file_line_key_and_what_is_accepted(
    before: str, after: str, line: int | None, said: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "calibration.yaml"
    assert before in GOOD
    file.write_text(GOOD.replace(before, after, 1), encoding="utf-8")
    with pytest.raises(UserError) as caught:
        read(file)
    message = str(caught.value)
    assert str(file) in message
    assert line is None or f"calibration.yaml:{line}" in message, message
    assert all(word in message for word in said), message


def test_a_file_that_is_no_text_or_cannot_be_written_is_told(tmp_path: Path) -> None:
    file = tmp_path / "calibration.yaml"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, check=coded("syntax", found="byte 0xff", line=1)):
        read(file)
    (tmp_path / "plain").write_text("")
    with pytest.raises((UserError, OSError)):
        write(tmp_path / "plain" / "calibration.yaml", "A", a_calibration())


def test_the_file_stands_beside_the_configuration_unless_the_environment_names_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LAB_CALIBRATION", "there.yaml")
    assert calibration.default_file() == Path("there.yaml")
    monkeypatch.delenv("LAB_CALIBRATION")
    assert calibration.default_file().name == "calibration.yaml"
