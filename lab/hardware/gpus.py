"""The GPUs that `lab` knows: the limits and rates of an SM of each compute capability, and the products.

`ARCHITECTURES` has a row for each compute capability, `PRODUCTS` a row for each card or module. A number that no
document gives is None, never a guess. A product whose clock or SM count is not documented is left out.

Clocks are those from which a datasheet's peak is computed (the boost clock). A card may run faster: `from_description`
takes the clock, the SMs and the L2 size from the GPU at hand instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType

import numpy as np
from numpy.typing import DTypeLike

from lab.base.errors import UserError, did_you_mean
from lab.base.warp import BANK_BYTES, BANKS, WARP_SIZE
from lab.hardware.latencies import NEVER_COMPARED, SmLatencies, latencies_for
from lab.isa.matrix import FLOAT8, FLOAT16, FLOAT64, INT8, TF32
from lab.measured.timing import GpuDescription

_MEASURED = "H200"
"""The product on which the built-in constants of the estimates were measured."""

KIB = 1024


_MOST_GPCS = 12
"""GPCs of the largest chip, AD102 and GB202."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """One SM of a compute capability.

    The defaults hold for every row of the table (7.0 to 12.1); `source` names the sources of the other fields.

    Attributes:
        arch: `sm_90`.
        warps_per_sm: Most resident warps.
        blocks_per_sm: Most resident blocks.
        shared_carveouts: Sizes of shared memory in bytes that the driver can configure for an SM, ascending. The rest
            of the SM's memory is L1 cache.
        shared_per_block: Most shared memory of a block in bytes, for a kernel that opted in.
        reserved_shared: Bytes of shared memory that the system reserves in each block.
        shared_unit: Bytes; shared memory is allocated to a block in multiples of this.
        barriers_per_sm: Named barriers that resident blocks share; None where they are no limit.
        fp32_lanes: FP32 fused multiply-adds per cycle.
        fp64_lanes: FP64 fused multiply-adds per cycle; None where no document gives them.
        fp16_lanes: FP16 fused multiply-adds per cycle outside the tensor cores, two to a packed lane; None where no
            document gives them.
        l1_bytes: Bytes of L1 cache and shared memory together; None where no document gives them.
        tensor_rates: Multiply-adds of dense matrices per cycle on the tensor cores, with the type of the factors (the
            names of `lab.isa.matrix`); types are absent that they lack or that no document gives. With sums of float32,
            GeForce products do half of the float16 figure.
        source: Documents from which the row is taken.
        gpcs: Most groups of SMs (GPCs) that clusters of blocks cannot span; 12 where no document gives them, which is
            the most of any chip.
        threads_per_block: Most threads in a block.
        registers_per_sm: 32-bit registers; a single block may have all of them.
        registers_per_thread: Most registers of a thread.
        register_unit: Registers are allocated to a warp in multiples of this.
        sub_partitions: Parts of an SM. Each has a scheduler that issues one warp instruction a cycle, a quarter of
            the registers and a quarter of the lanes.
        shared_bytes_per_cycle: Shared-memory bandwidth in bytes: 32 banks of 4 bytes.
        lsu_lanes: Lanes that the load/store units take per cycle: 32 at most on these SMs (TU10x, GA10x and AD10x
            have fewer units, so this is the upper limit that a ceiling needs).
    """

    arch: str
    warps_per_sm: int
    blocks_per_sm: int
    shared_carveouts: tuple[int, ...]
    shared_per_block: int
    reserved_shared: int
    shared_unit: int
    barriers_per_sm: int | None
    fp32_lanes: int
    fp64_lanes: int | None
    fp16_lanes: int | None
    l1_bytes: int | None
    tensor_rates: tuple[tuple[str, int], ...]
    source: str
    gpcs: int = _MOST_GPCS
    threads_per_block: int = 1024
    registers_per_sm: int = 65536
    registers_per_thread: int = 255
    register_unit: int = 256
    sub_partitions: int = 4
    shared_bytes_per_cycle: int = BANKS * BANK_BYTES
    lsu_lanes: int = WARP_SIZE

    @property
    def threads_per_sm(self) -> int:
        """Most resident threads."""
        return self.warps_per_sm * WARP_SIZE

    @property
    def shared_per_sm(self) -> int:
        """Largest shared memory of an SM, in bytes."""
        return self.shared_carveouts[-1]

    @property
    def tensor_lanes(self) -> dict[str, int]:
        """`tensor_rates` by type."""
        return dict(self.tensor_rates)

    def lanes(self, dtype: DTypeLike) -> int:
        """Return the fused multiply-adds per cycle and SM in `dtype`, outside the tensor cores.

        Raises:
            UserError: The type has no such rate, or its rate on this architecture is not documented.
        """
        name = np.dtype(dtype).name
        known = {"float32": self.fp32_lanes, "float64": self.fp64_lanes, "float16": self.fp16_lanes}
        if name not in known:
            raise UserError("this type has no known peak", key="dtype", found=name, accepted=tuple(known))
        rate = known[name]
        if rate is None:
            accepted = tuple(key for key, value in known.items() if value is not None)
            raise UserError(
                f"the {name} rate of {self.arch} is not documented", key="dtype", found=name, accepted=accepted
            )
        return rate


@dataclass(frozen=True, slots=True)
class Gpu:
    """A product.

    Attributes:
        name: The table's name; of a live GPU, the driver's name.
        architecture: Its SM.
        sms: Streaming multiprocessors.
        clock_mhz: SM clock for the peak, in MHz: the boost clock, or the highest that the driver allows.
        dram_gb_s: Memory bandwidth, 10^9 bytes per second; None where it is not known.
        l2_bytes: Bytes of L2 cache.
        source: Document from which the row is taken.
        latencies: Latencies and rates of its SM for the models.
        aliases: Other names that `gpu_for` accepts, such as the driver's.
        clusters: Of a live GPU, blocks of a cluster and how many such clusters it holds at once, with one block an SM;
            empty where the driver was not asked. See `lab.hardware.clusters`.
        calibrated: Date of the calibration that gave them; empty where they are built in.
    """

    name: str
    architecture: Architecture
    sms: int
    clock_mhz: int
    dram_gb_s: float | None
    l2_bytes: int
    source: str
    latencies: SmLatencies
    aliases: tuple[str, ...] = ()
    calibrated: str = ""
    clusters: tuple[tuple[int, int], ...] = ()

    @property
    def constants(self) -> str:
        """Where the constants of its estimates come from, in words."""
        if self.calibrated:
            return f"calibrated {self.calibrated}"
        return "measured on an H200" if model_of(self.name) == _MEASURED else f"published figures, {NEVER_COMPARED}"

    def peak_tflops(self, dtype: DTypeLike) -> float:
        """Return the peak without tensor cores in TFLOP/s: SMs x lanes x 2 operations x clock.

        Raises:
            UserError: As `Architecture.lanes` does.
        """
        return self.sms * self.architecture.lanes(dtype) * 2 * self.clock_mhz * 1e6 / 1e12

    def tensor_tflops(self, multiply_adds: Mapping[str, float]) -> float | None:
        """Return the peak of the tensor cores in TFLOP/s for a mixture of products.

        Args:
            multiply_adds: How many, or their shares, by the type of the factors (`Architecture.tensor_lanes`).

        Returns:
            None where the rate of one of the types is not known, or there are none.
        """
        rates = self.architecture.tensor_lanes
        if not multiply_adds or not rates.keys() >= multiply_adds.keys():
            return None
        cycles = sum(n / rates[elements] for elements, n in multiply_adds.items())
        return 2 * sum(multiply_adds.values()) / cycles * self.sms * self.clock_mhz * 1e6 / 1e12


def _kib(*sizes: int) -> tuple[int, ...]:
    return tuple(size * KIB for size in sizes)


_VOLTA = _kib(0, 8, 16, 32, 64, 96)
_AMPERE = _kib(0, 8, 16, 32, 64, 100)
_A100 = _kib(0, 8, 16, 32, 64, 100, 132, 164)
_HOPPER = _kib(0, 8, 16, 32, 64, 100, 132, 164, 196, 228)

_GUIDE = (
    "CUDA C++ Programming Guide, Technical Specifications per Compute Capability; "
    "units, carve-outs and barriers: cuda_occupancy.h of the CUDA 13 toolkit; "
)
_RATES = "rates: CUDA C++ Programming Guide, Throughput of Native Arithmetic Instructions"


_GPCS = {"sm_90": 8, "sm_120": 12}
"""GPCs of the full chip: NVIDIA H100 Tensor Core GPU and NVIDIA RTX Blackwell GPU Architecture whitepapers."""

_TENSOR = (FLOAT16, TF32, FLOAT8, INT8, FLOAT64)


def _architecture(  # noqa: PLR0917 - one row of a table; the column heads stand beside the rows
    arch: str,
    warps: int,
    blocks: int,
    carveouts: tuple[int, ...],
    reserved: int,
    unit: int,
    barriers: int | None,
    fp32: int,
    fp64: int | None,
    fp16: int | None,
    l1_kib: int | None,
    rates: str,
    tensor: tuple[int, int, int, int, int] = (0, 0, 0, 0, 0),
) -> Architecture:
    """Make a row. A block may have all of an SM's shared memory but the reserve (true of every row of the guide).

    Rates of tensor cores are in the order of `_TENSOR`, and 0 where none is known.
    """
    return Architecture(
        arch=arch, warps_per_sm=warps, blocks_per_sm=blocks, shared_carveouts=carveouts,
        shared_per_block=carveouts[-1] - reserved, reserved_shared=reserved, shared_unit=unit, barriers_per_sm=barriers,
        fp32_lanes=fp32, fp64_lanes=fp64, fp16_lanes=fp16, l1_bytes=None if l1_kib is None else l1_kib * KIB,
        tensor_rates=tuple((name, n) for name, n in zip(_TENSOR, tensor, strict=True) if n),
        source=_GUIDE + rates, gpcs=_GPCS.get(arch, _MOST_GPCS),
    )  # fmt: skip


ARCHITECTURES: Mapping[str, Architecture] = MappingProxyType(
    {
        row.arch: row
        for row in (
            # arch, warps, blocks, carve-outs, reserve, unit, barriers, FP32, FP64, FP16, L1 KiB, rates, tensor cores
            _architecture("sm_70", 64, 32, _VOLTA, 0, 256, None, 64, 32, 128, 128,
                          f"{_RATES} (7.x); NVIDIA Tesla V100 GPU Architecture whitepaper",
                          (512, 0, 0, 0, 0)),
            _architecture("sm_72", 64, 32, _VOLTA, 0, 256, None, 64, 32, 128, 128, f"{_RATES} (7.x)"),
            _architecture("sm_75", 32, 16, _kib(32, 64), 0, 256, None, 64, 2, 128, 96,
                          f"{_RATES} (7.x and its footnote on FP64); NVIDIA Turing GPU Architecture whitepaper",
                          (512, 0, 0, 1024, 0)),
            _architecture("sm_80", 64, 32, _A100, 1024, 128, None, 64, 32, 256, 192,
                          f"{_RATES} (8.0); NVIDIA A100 Tensor Core GPU Architecture whitepaper",
                          (1024, 512, 0, 2048, 64)),
            _architecture("sm_86", 48, 16, _AMPERE, 1024, 128, None, 128, 2, 128, 128,
                          f"{_RATES} (8.6); NVIDIA Ampere GA102 GPU Architecture whitepaper",
                          (512, 256, 0, 1024, 0)),
            _architecture("sm_87", 48, 16, _A100, 1024, 128, None, 128, None, None, 192,
                          "FP32: NVIDIA Jetson AGX Orin Series technical brief (128 CUDA cores an SM)"),
            _architecture("sm_89", 48, 24, _AMPERE, 1024, 128, None, 128, 2, 128, 128,
                          f"{_RATES} (8.9); NVIDIA Ada GPU Architecture whitepaper",
                          (512, 256, 1024, 1024, 0)),
            _architecture("sm_90", 64, 32, _HOPPER, 1024, 128, 64, 128, 64, 256, 256,
                          f"{_RATES} (9.0); NVIDIA H100 Tensor Core GPU Architecture whitepaper",
                          (2048, 1024, 4096, 4096, 128)),
            _architecture("sm_100", 64, 32, _HOPPER, 1024, 128, 64, 128, 64, None, 256,
                          "rates: NVIDIA HGX B200 specification (75 TFLOP/s of FP32 and 37 of FP64 a GPU)",
                          (4096, 2048, 8192, 8192, 64)),
            _architecture("sm_103", 64, 32, _HOPPER, 1024, 128, 32, 128, None, None, 256,
                          "FP32: NVIDIA HGX B300 specification (75 TFLOP/s a GPU)"),
            _architecture("sm_110", 48, 24, _HOPPER, 1024, 128, 24, 128, None, None, 256,
                          "FP32: NVIDIA Jetson Thor series datasheet (2560 CUDA cores on 20 SMs)"),
            _architecture("sm_120", 48, 24, _AMPERE, 1024, 128, 24, 128, 2, 128, 128,
                          "rates: NVIDIA RTX Blackwell GPU Architecture whitepaper (FP64 1/64, FP16 1/1 of FP32)",
                          (512, 128, 1024, 1024, 0)),
            _architecture("sm_121", 48, 24, _AMPERE, 1024, 128, 24, 128, None, None, 128,
                          "FP32: NVIDIA DGX Spark datasheet (6144 CUDA cores on 48 SMs)"),
        )
    }
)  # fmt: skip
"""Maps a compute capability, written `sm_90`, to its SM."""


def _product(  # noqa: PLR0917 - one row of a table, as above
    name: str, arch: str, sms: int, clock: int, dram: float, l2_kib: int, source: str, *aliases: str
) -> Gpu:
    return Gpu(name, ARCHITECTURES[arch], sms, clock, dram, l2_kib * KIB, source, latencies_for(arch), aliases)


_V100 = "NVIDIA Tesla V100 GPU Architecture whitepaper; V100 datasheet"
_A100_SOURCE = "NVIDIA A100 Tensor Core GPU Architecture whitepaper; A100 datasheet"
_H100 = "NVIDIA H100 Tensor Core GPU Architecture whitepaper; H100 datasheet"

PRODUCTS: tuple[Gpu, ...] = (
    # name, arch, SMs, MHz, GB/s, L2 KiB, source, aliases
    _product("V100 SXM2", "sm_70", 80, 1530, 900, 6144, _V100, "V100", "V100-SXM2-16GB", "V100-SXM2-32GB"),
    _product("V100 PCIe", "sm_70", 80, 1380, 900, 6144, _V100, "V100-PCIE-16GB", "V100-PCIE-32GB"),
    _product("Titan V", "sm_70", 80, 1455, 652.8, 4608, "NVIDIA TITAN V product page"),
    _product("Jetson AGX Xavier", "sm_72", 8, 1377, 136.5, 512, "NVIDIA Jetson AGX Xavier series datasheet",
             "Xavier", "AGX Xavier"),
    _product("T4", "sm_75", 40, 1590, 320, 4096, "NVIDIA Turing GPU Architecture whitepaper; T4 datasheet"),
    _product("RTX 2080 Ti", "sm_75", 68, 1545, 616, 5632,
             "NVIDIA Turing GPU Architecture whitepaper (reference card)"),
    _product("A100 SXM 80GB", "sm_80", 108, 1410, 2039, 40960, _A100_SOURCE, "A100", "A100-SXM4-80GB"),
    _product("A100 SXM 40GB", "sm_80", 108, 1410, 1555, 40960, _A100_SOURCE, "A100-SXM4-40GB"),
    _product("A100 PCIe 80GB", "sm_80", 108, 1410, 1935, 40960, _A100_SOURCE, "A100 80GB PCIe"),
    _product("A100 PCIe 40GB", "sm_80", 108, 1410, 1555, 40960, _A100_SOURCE, "A100-PCIE-40GB"),
    _product("RTX 3090", "sm_86", 82, 1695, 936, 6144, "NVIDIA Ampere GA102 GPU Architecture whitepaper"),
    _product("A10", "sm_86", 72, 1695, 600, 6144, "NVIDIA A10 datasheet (31.2 TFLOP/s); L2 and clock: driver"),
    _product("A40", "sm_86", 84, 1740, 696, 6144,
             "NVIDIA A40 datasheet (37.4 TFLOP/s); NVIDIA Ampere GA102 GPU Architecture whitepaper"),
    _product("Jetson AGX Orin 64GB", "sm_87", 16, 1300, 204.8, 4096,
             "NVIDIA Jetson AGX Orin Series technical brief (5.3 TFLOP/s)", "Orin", "AGX Orin", "Jetson AGX Orin"),
    _product("L40S", "sm_89", 142, 2520, 864, 98304, "NVIDIA L40S datasheet (91.6 TFLOP/s)"),
    _product("L4", "sm_89", 58, 2040, 300, 49152, "NVIDIA L4 datasheet (30.3 TFLOP/s)"),
    _product("RTX 4090", "sm_89", 128, 2520, 1008, 73728, "NVIDIA Ada GPU Architecture whitepaper"),
    _product("H200", "sm_90", 132, 1980, 4800, 61440,
             "NVIDIA H200 datasheet (4.8 TB/s, 67 TFLOP/s); SMs, clock and L2: driver", "H200 SXM", "H200 141GB"),
    _product("H100 SXM", "sm_90", 132, 1980, 3350, 51200, _H100, "H100", "H100 SXM5", "H100 80GB HBM3"),
    _product("H100 PCIe", "sm_90", 114, 1755, 2000, 51200, _H100),
    _product("GH200", "sm_90", 132, 1980, 4000, 61440,
             "NVIDIA GH200 Grace Hopper Superchip datasheet (96 GB HBM3, 67 TFLOP/s); SMs and clock: driver",
             "GH200 480GB", "GH200 96GB"),
    _product("B200", "sm_100", 148, 1965, 8000, 129536,
             "NVIDIA DGX B200 datasheet (64 TB/s for eight) and HGX B200 specification (75 TFLOP/s); SMs, L2: driver"),
    _product("Jetson Thor T5000", "sm_110", 20, 1575, 273, 32768,
             "NVIDIA Jetson Thor series datasheet; SMs and L2: driver", "Thor", "Jetson AGX Thor", "AGX Thor"),
    _product("RTX 5090", "sm_120", 170, 2407, 1792, 98304, "NVIDIA RTX Blackwell GPU Architecture whitepaper"),
)  # fmt: skip
"""Every product of the table. The first one of an architecture represents it where only the architecture is named."""


def architecture_for(arch: str) -> Architecture:
    """Return the SM of an architecture, written `sm_90`, `sm_90a`, `compute_90`, `90` or `9.0`.

    Raises:
        UserError: The architecture is not in the table.
    """
    match = re.fullmatch(r"(?:sm_|compute_)?(\d+)\.?(\d)[af]?", arch.strip().lower())
    known = ARCHITECTURES.get(f"sm_{match[1]}{match[2]}") if match else None
    if known is None:
        raise UserError(
            "unknown GPU architecture", key="arch", found=arch, accepted=tuple(ARCHITECTURES),
            suggestion=did_you_mean(arch, ARCHITECTURES),
        )  # fmt: skip
    return known


@cache  # asked for every variant
def gpu_for(name_or_arch: str) -> Gpu:
    """Return the product of a name, or the representative product of an architecture.

    Case, punctuation and the words NVIDIA, Tesla and GeForce are ignored in names. An architecture stands for its
    first product in `PRODUCTS`: sm_70 V100 SXM2, sm_72 Jetson AGX Xavier, sm_75 T4, sm_80 A100 SXM 80GB,
    sm_86 RTX 3090, sm_87 Jetson AGX Orin 64GB, sm_89 L40S, sm_90 H200, sm_100 B200, sm_110 Jetson Thor T5000,
    sm_120 RTX 5090.

    Raises:
        UserError: The table has neither a product nor an architecture with products of that name.
    """
    wanted = _normalised(name_or_arch)
    for gpu in PRODUCTS:
        if wanted in {_normalised(name) for name in (gpu.name, *gpu.aliases)}:
            return gpu
    if re.match(r"\s*(sm_|compute_|\d+\.?\d[af]?\s*$)", name_or_arch.lower()):
        return _representative(architecture_for(name_or_arch))
    names = tuple(gpu.name for gpu in PRODUCTS)
    aliases = tuple(alias for gpu in PRODUCTS for alias in gpu.aliases)
    raise UserError(
        "unknown GPU", key="gpu", found=name_or_arch, accepted=(*names, *_represented()),
        suggestion=did_you_mean(" ".join(_words(name_or_arch)).upper(), names + aliases),
    )  # fmt: skip


def from_description(description: GpuDescription) -> Gpu:
    """Return a live GPU: name, SMs, clock and L2 from the driver, the rest from the table.

    The bandwidth is None if the product is not in the table.

    Raises:
        UserError: The architecture is not in the table.
    """
    architecture = architecture_for(description.arch)
    live = Gpu(
        description.name, architecture, description.sms, description.sm_clock_mhz, None, description.l2_bytes,
        f"driver {description.driver}", latencies_for(architecture.arch), clusters=description.clusters,
    )  # fmt: skip
    try:
        product = gpu_for(description.name)
    except UserError:
        return live
    return replace(live, dram_gb_s=product.dram_gb_s, source=f"{live.source}; bandwidth: {product.source}")


def model_of(name: str) -> str:
    """Return the table's name of a GPU that the driver or a user names; of one that is not in it, the given words."""
    try:
        return gpu_for(name).name
    except UserError:
        return " ".join(_words(name))


def _words(name: str) -> list[str]:
    """Return the words of a name that distinguish products, in lower case."""
    return [word for word in re.findall(r"[a-z0-9.]+", name.lower()) if word not in {"nvidia", "tesla", "geforce"}]


def _normalised(name: str) -> str:
    """Join these words: `NVIDIA H100 80GB HBM3` becomes `h10080gbhbm3`."""
    return "".join(_words(name))


def _represented() -> tuple[str, ...]:
    return tuple(arch for arch, row in ARCHITECTURES.items() if any(gpu.architecture is row for gpu in PRODUCTS))


def _representative(architecture: Architecture) -> Gpu:
    for gpu in PRODUCTS:
        if gpu.architecture is architecture:
            return gpu
    raise UserError(
        f"the table has no product of {architecture.arch}: its limits are known, its SMs and clock are not",
        key="gpu", found=architecture.arch, accepted=_represented(),
    )  # fmt: skip
