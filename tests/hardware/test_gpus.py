import pytest
from mistakes import coded

from lab.base.errors import UserError
from lab.hardware.gpus import (
    ARCHITECTURES,
    PRODUCTS,
    Gpu,
    ambiguity,
    architecture_for,
    cards_of,
    from_description,
    gpu_for,
    read_rows,
    runs_on,
    target_gpu,
)
from lab.measured.timing import GpuDescription


@pytest.mark.parametrize(
    ("name", "dtype", "datasheet"),
    [
        # The figures that the datasheets and whitepapers print, TFLOP/s.
        ("V100 SXM2", "float32", 15.7),
        ("V100 SXM2", "float64", 7.8),
        ("V100 SXM2", "float16", 31.4),
        ("T4", "float32", 8.1),
        ("A100 SXM 80GB", "float32", 19.5),
        ("A100 SXM 80GB", "float64", 9.7),
        ("A100 SXM 80GB", "float16", 78.0),
        ("RTX 3090", "float32", 35.6),
        ("A10", "float32", 31.2),
        ("A40", "float32", 37.4),
        ("L4", "float32", 30.3),
        ("L40S", "float32", 91.6),
        ("RTX 4090", "float32", 82.6),
        ("RTX 4090", "float64", 1.29),
        ("H100 SXM", "float32", 66.9),
        ("H100 SXM", "float64", 33.5),
        ("H100 SXM", "float16", 133.8),
        ("H100 PCIe", "float32", 51.2),
        ("H200", "float32", 66.9),
        ("B200", "float32", 75.0),
        ("RTX 5090", "float32", 104.8),
        ("Jetson AGX Orin 64GB", "float32", 5.3),
    ],
)
def test_peak_is_the_datasheet_s(name, dtype, datasheet):
    assert gpu_for(name).peak_tflops(dtype) == pytest.approx(datasheet, rel=0.01)


def test_h200_peak_by_hand():
    # 132 SMs x 128 lanes x 2 operations x 1.98 GHz
    assert gpu_for("H200").peak_tflops("float32") == pytest.approx(66.908, abs=5e-4)


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("NVIDIA H200", "H200"),
        ("h200", "H200"),
        ("NVIDIA H100 80GB HBM3", "H100 SXM"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("Tesla V100-SXM2-16GB", "V100 SXM2"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("NVIDIA A100-SXM4-40GB", "A100 SXM 40GB"),
        ("sm_90", "H200"),
        ("sm_90a", "H200"),
        ("compute_70", "V100 SXM2"),
        ("9.0", "H200"),
        ("120", "RTX 5090"),
    ],
)
def test_gpu_for_takes_the_usual_spellings(spelling, name):
    assert gpu_for(spelling).name == name


def test_every_product_is_found_by_each_of_its_names_and_none_is_ambiguous():
    spellings = [(gpu, name) for gpu in PRODUCTS for name in (gpu.name, *gpu.aliases)]
    assert len(spellings) > len(PRODUCTS)
    for gpu, name in spellings:
        assert gpu_for(f"NVIDIA {name}") is gpu


@pytest.mark.parametrize(
    ("wrong", "suggestion"), [("H201", "H20"), ("RTX 4095", "RTX 4090"), ("sm_91", "sm_90"), ("A1000", "A100")]
)
def test_unknown_gpu_names_what_is_accepted(wrong, suggestion):
    with pytest.raises(UserError) as caught:
        gpu_for(wrong)
    assert caught.value.found == wrong
    assert "sm_90" in (caught.value.accepted or ())
    assert suggestion in str(caught.value.suggestion)


def test_every_architecture_has_a_product_that_stands_for_it():
    assert {arch: cards_of(arch)[0].name for arch in ("sm_87", "sm_89", "sm_90a", "sm_103", "sm_121")} == {
        "sm_87": "Jetson AGX Orin 64GB",
        "sm_89": "L40S",
        "sm_90a": "H200",
        "sm_103": "B300",
        "sm_121": "GB10",
    }
    assert all(cards_of(arch) for arch in ARCHITECTURES)


LISTED = """
RTX 3060, RTX 3060 Ti, RTX 3070, RTX 3070 Ti, RTX 3080, RTX 3080 Ti, RTX 3090, RTX 3090 Ti, RTX 4060, RTX 4060 Ti,
RTX 4070, RTX 4070 SUPER, RTX 4070 Ti, RTX 4070 Ti SUPER, RTX 4080, RTX 4080 SUPER, RTX 4090, RTX 5060, RTX 5060 Ti,
RTX 5070, RTX 5070 Ti, RTX 5080, RTX 5090, A2, A10, A30, A40, A6000, L4, L20, L40, L40S, RTX 6000 Ada, RTX PRO 6000,
H20, H100 PCIe, H100 SXM, H100 NVL, H200 NVL, GH200, B200, B300, GB200, GB10, Orin
"""


@pytest.mark.parametrize("name", [word.strip() for word in LISTED.replace("\n", " ").split(",")])
def test_the_common_cards_are_in_the_table(name):
    assert gpu_for(name).sms > 0


@pytest.mark.parametrize("row", read_rows(), ids=lambda row: row["name"])
def test_a_row_agrees_with_the_published_peak_and_bandwidth(row):
    """A peak is published with two or three digits: SMs x lanes x 2 x clock gives it within one percent."""
    gpu = gpu_for(row["name"])
    assert row["source"]
    if row["fp32_tflops"]:
        assert gpu.peak_tflops("float32") == pytest.approx(float(row["fp32_tflops"]), rel=0.0102)
    if row["pin_gbit_s"]:
        computed = int(row["bus_bits"]) * float(row["pin_gbit_s"]) / 8
        assert gpu.dram_gb_s == pytest.approx(computed, rel=0.005)
    if "peak / (SMs" in row["derived"]:
        assert gpu.clock_mhz == pytest.approx(
            float(row["fp32_tflops"]) * 1e6 / (gpu.sms * gpu.architecture.fp32_lanes * 2), abs=1
        )
    if "512 KiB a memory controller" in row["derived"]:
        assert gpu.l2_bytes == int(row["bus_bits"]) // 32 * 512 * 1024
    if "a memory stack" in row["derived"]:
        each = {"sm_80": 8, "sm_90": 10}[row["arch"]]
        assert gpu.l2_bytes == -(-int(row["bus_bits"]) // 1024) * each * 2**20


def test_an_h20_has_its_own_peaks_of_float64_and_of_the_tensor_cores():
    h20 = gpu_for("H20")
    assert h20.peak_tflops("float64") == pytest.approx(1, rel=0.05)
    assert h20.tensor_tflops({"float16": 1.0}) == pytest.approx(148, rel=0.01)
    assert h20.tensor_tflops({"int8": 1.0}) == pytest.approx(296, rel=0.01)
    assert gpu_for("H100 SXM").tensor_tflops({"float16": 1.0}) == pytest.approx(1070, rel=0.01)


@pytest.mark.parametrize(
    ("names", "arch", "target"),
    [
        ((), "sm_89", "L40S"),
        (("RTX 4090",), "sm_89", "RTX 4090"),
        (("RTX 4090", "A10"), "sm_86", "RTX 4090"),
        (("A10", "RTX 4090"), "sm_86", "A10"),
        (("RTX 4090", "RTX 5080"), "sm_120", "RTX 5080"),
        (("RTX 4090",), "sm_120", "RTX 5090"),
        (("H100 PCIe",), "sm_90a", "H100 PCIe"),
    ],
)
def test_a_named_gpu_is_the_target_of_the_code_that_it_runs(names, arch, target):
    assert target_gpu(names, arch).name == target


def test_an_architecture_of_several_cards_says_which_it_may_mean():
    said = ambiguity((), "sm_89")
    assert "predicted for L40S" in said
    assert "272 to 1,008 GB/s" in said
    assert all(name in said for name in ("RTX 4060 Ti", "RTX 4090", "L4", "RTX 6000 Ada"))


@pytest.mark.parametrize(
    ("names", "arch"),
    [
        (("RTX 4070",), "sm_89"),
        ((), "sm_90"),
        ((), "sm_90a"),
        ((), "sm_72"),
        ((), "sm_121"),
        ((), "sm_88"),
        (("A10",), "sm_86"),
    ],
)
def test_an_architecture_means_one_card(names, arch):
    """The user named it, the estimates were compared with it, or there is no other."""
    assert ambiguity(names, arch) == ""


@pytest.mark.parametrize(
    ("built", "gpu", "runs"),
    [
        ("sm_90", "sm_90", True),
        ("sm_80", "sm_86", True),
        ("sm_86", "sm_80", False),
        ("sm_80", "sm_90", False),
        ("sm_90a", "sm_90", True),
        ("sm_100", "sm_103", True),
        ("sm_100a", "sm_103", False),
        ("sm_120", "sm_100", False),
    ],
)
def test_machine_code_runs_on_later_minor_versions(built, gpu, runs):
    assert runs_on(built, gpu) is runs


@pytest.mark.parametrize("dtype", ["int32", "complex64"])
def test_a_type_without_a_peak_is_refused(dtype):
    with pytest.raises(UserError, check=coded("unsupported", key="dtype")) as caught:
        gpu_for("H200").peak_tflops(dtype)
    assert caught.value.accepted == ("float32", "float64", "float16")


def test_an_undocumented_rate_is_refused():
    with pytest.raises(UserError, check=coded("unsupported", key="dtype", found="float16")) as caught:
        gpu_for("B200").peak_tflops("float16")
    assert caught.value.accepted == ("float32", "float64")


def _live(name, arch="sm_90"):
    return GpuDescription(name, arch, 78, 1500, 10**11, 2**25, "580.1", "13.0")


def test_live_gpu_takes_the_driver_s_figures_and_the_table_s_bandwidth():
    gpu = from_description(_live("NVIDIA H200"))
    assert (gpu.name, gpu.sms, gpu.clock_mhz, gpu.l2_bytes, gpu.dram_gb_s) == ("NVIDIA H200", 78, 1500, 2**25, 4800)
    assert gpu.peak_tflops("float32") == pytest.approx(78 * 128 * 2 * 1.5e-3)
    assert "580.1" in gpu.source


def test_live_gpu_outside_the_table_has_no_bandwidth():
    gpu = from_description(_live("NVIDIA H21"))
    assert gpu.dram_gb_s is None
    assert gpu.architecture is ARCHITECTURES["sm_90"]


def test_live_gpu_of_an_unknown_architecture_is_refused():
    with pytest.raises(UserError, check=coded("unknown-name", key="arch", found="sm_160")):
        from_description(_live("NVIDIA R100", "sm_160"))


@pytest.mark.parametrize("row", ARCHITECTURES.values(), ids=ARCHITECTURES)
def test_rows_are_consistent(row):
    assert row.threads_per_sm in {1024, 1536, 2048}
    assert row.warps_per_sm >= row.threads_per_block // 32
    assert list(row.shared_carveouts) == sorted(set(row.shared_carveouts))
    assert row.shared_per_block + row.reserved_shared == row.shared_per_sm
    assert row.l1_bytes is None or row.l1_bytes >= row.shared_per_sm
    assert row.source


def test_a_peak_and_the_derived_limits_to_the_last_digit():
    h200 = gpu_for("H200")
    assert h200.peak_tflops("float32") == pytest.approx(132 * 128 * 2 * 1.98e-3, rel=1e-13)
    sm = h200.architecture
    assert (sm.threads_per_sm, sm.shared_per_sm, sm.shared_per_block) == (2048, 228 * 1024, 227 * 1024)
    assert (sm.l1_bytes, h200.l2_bytes, sm.lsu_lanes, sm.shared_bytes_per_cycle) == (256 * 1024, 60 * 2**20, 32, 128)
    assert (sm.threads_per_block, sm.registers_per_sm, sm.registers_per_thread) == (1024, 65536, 255)
    assert (sm.register_unit, sm.sub_partitions, sm.reserved_shared, sm.shared_unit) == (256, 4, 1024, 128)
    assert ARCHITECTURES["sm_70"].shared_per_block == 96 * 1024


@pytest.mark.parametrize("name", ["9.0", "90", "90a", "compute_90", " SM_90A ", "sm_90f"])
def test_spellings_of_an_architecture(name):
    assert architecture_for(name) is ARCHITECTURES["sm_90"]
    assert gpu_for(name).name == "H200"


@pytest.mark.parametrize("name", ["sm_9", "9", "sm_90b", "sm_990", "x90", "sm_90 a"])
def test_what_is_no_architecture(name):
    with pytest.raises(UserError, check=coded("unknown-name", key="arch")):
        architecture_for(name)


def test_every_name_and_alias_leads_to_its_product():
    for gpu in PRODUCTS:
        for name in (gpu.name, *gpu.aliases, f"NVIDIA {gpu.name}", f"Tesla-{gpu.name.lower()}"):
            assert gpu_for(name) is gpu
    firsts: dict[str, Gpu] = {}
    for gpu in PRODUCTS:
        firsts.setdefault(gpu.architecture.arch, gpu)
    assert all(gpu_for(arch) is gpu for arch, gpu in firsts.items())


def test_what_a_refusal_offers():
    with pytest.raises(UserError) as caught:
        gpu_for("GeForce RTX 4091")
    assert "RTX 4090" in str(caught.value)
    with pytest.raises(UserError, check=coded("unsupported", key="dtype", found="float16")) as caught:
        ARCHITECTURES["sm_100"].lanes("float16")
    assert "float32, float64" in str(caught.value)
    assert "float16" not in str(caught.value).partition("accepted")[2]
