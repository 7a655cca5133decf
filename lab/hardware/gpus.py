"""The table of GPUs: limits and rates of an SM per compute capability, and the products.

`ARCHITECTURES` has a row for each compute capability, `PRODUCTS` a row for each card or module, read from `gpus.csv`. A
figure that no document gives is None or is derived by a formula that the row states, never a guess.

Clocks are those from which a datasheet's peak is computed (the boost clock). A card may run faster: `from_description`
takes the clock, the SMs and the L2 size from the GPU at hand instead.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
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
"""GPCs of the largest chips, AD102 and GB202."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """One SM of a compute capability.

    The defaults hold for every row of the table (7.0 to 12.1); `source` names the sources of the other fields.

    Attributes:
        arch: `sm_90`.
        warps_per_sm: Maximum resident warps.
        blocks_per_sm: Maximum resident blocks.
        shared_carveouts: Sizes of shared memory in bytes that the driver can configure for an SM, ascending. The rest
            of the SM's memory is L1 cache.
        shared_per_block: Maximum shared memory per block in bytes, for a kernel that opted in.
        reserved_shared: Bytes of shared memory that the system reserves in each block.
        shared_unit: Allocation granularity of shared memory in bytes.
        barriers_per_sm: Named barriers that resident blocks share; None if they are not a limit.
        fp32_lanes: FP32 fused multiply-adds per cycle.
        fp64_lanes: FP64 fused multiply-adds per cycle; None where no document gives them.
        fp16_lanes: FP16 fused multiply-adds per cycle outside the tensor cores, two to a packed lane; None where no
            document gives them.
        l1_bytes: Bytes of L1 cache and shared memory together; None where no document gives them.
        tensor_rates: Dense multiply-adds per cycle on the tensor cores, by the type of the operands (the names of
            `lab.isa.matrix`); unsupported and undocumented types are absent. With FP32 accumulation, GeForce products
            reach half of the float16 figure.
        source: Sources of the row.
        gpcs: Maximum number of GPCs, which clusters cannot span; 12 if undocumented, the maximum of any chip.
        threads_per_block: Maximum threads per block.
        registers_per_sm: 32-bit registers; a single block may have all of them.
        registers_per_thread: Maximum registers per thread.
        register_unit: Allocation granularity of a warp's registers.
        sub_partitions: Sub-partitions of an SM. Each has a scheduler that issues one warp instruction per cycle, a
            quarter of the registers and a quarter of the lanes.
        shared_bytes_per_cycle: Shared-memory bandwidth in bytes: 32 banks of 4 bytes.
        lsu_lanes: Lanes that the load/store units take per cycle: 32 at most on these SMs (TU10x, GA10x and AD10x
            have fewer units; a ceiling needs an upper limit).
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
        """Maximum resident threads."""
        return self.warps_per_sm * WARP_SIZE

    @property
    def shared_per_sm(self) -> int:
        """Largest shared-memory carve-out of an SM, in bytes."""
        return self.shared_carveouts[-1]

    @property
    def tensor_lanes(self) -> dict[str, int]:
        """`tensor_rates` by type."""
        return dict(self.tensor_rates)

    def lanes(self, dtype: DTypeLike) -> int:
        """Return the FMAs per cycle and SM in `dtype`, outside the tensor cores.

        Raises:
            UserError: The type has no FMA rate, or its rate on this architecture is not documented.
        """
        name = np.dtype(dtype).name
        rates = {"float32": self.fp32_lanes, "float64": self.fp64_lanes, "float16": self.fp16_lanes}
        if name not in rates:
            raise UserError(
                "the peak of this type is not known", code="unsupported", key="dtype", found=name, accepted=tuple(rates)
            )
        rate = rates[name]
        if rate is None:
            accepted = tuple(key for key, value in rates.items() if value is not None)
            raise UserError(
                f"the {name} rate of {self.arch} is not documented",
                code="unsupported",
                key="dtype",
                found=name,
                accepted=accepted,
            )
        return rate


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU product.

    Attributes:
        name: The table's name; of a live GPU, the driver's name.
        architecture: Its SM.
        sms: Number of SMs.
        clock_mhz: SM clock for the peak, in MHz: the boost clock, or the highest that the driver allows.
        dram_gb_s: DRAM bandwidth in 10^9 bytes per second; None if unknown.
        l2_bytes: Bytes of L2 cache.
        source: Source of the row.
        latencies: Latencies and rates of its SM, for the models.
        aliases: Other names that `gpu_for` accepts, such as the driver's.
        clusters: For a live GPU, pairs of cluster size and number of such clusters resident with one block per SM;
            empty if the driver was not queried. See `lab.hardware.clusters`.
        calibrated: Date of the calibration of `latencies`; empty if they are built in.
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
        """Origin of the constants of its estimates, in words."""
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
        """Return the tensor-core peak in TFLOP/s for a mixture of types.

        Args:
            multiply_adds: Multiply-adds, or their shares, by operand type (`Architecture.tensor_lanes`).

        Returns:
            None if the rate of one of the types is not known, or there are no types.
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
"""GPCs of the full chips: NVIDIA H100 Tensor Core GPU and NVIDIA RTX Blackwell GPU Architecture whitepapers."""

_TENSOR = (FLOAT16, TF32, FLOAT8, INT8, FLOAT64)


def _architecture(  # noqa: PLR0917 - one row of a table; the column heads are next to the rows
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
    """Build a row. A block may have all of an SM's shared memory except the reserve, in every row of the guide.

    Tensor-core rates are in the order of `_TENSOR`, 0 if unknown.
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
"""SMs by compute capability, in the form `sm_90`."""


def _product(row: Mapping[str, str]) -> Gpu:
    """Return the product of a row of `gpus.csv`."""
    sms, clock = int(row["sms"]), int(row["clock_mhz"])
    architecture = _with_rates(ARCHITECTURES[row["arch"]], sms, clock, row["rates_tflops"])
    source = "; derived: ".join(filter(None, (row["source"], row["derived"])))
    aliases = tuple(filter(None, row["aliases"].split("|")))
    return Gpu(
        row["name"], architecture, sms, clock, float(row["dram_gb_s"]), int(row["l2_kib"]) * KIB, source,
        latencies_for(row["arch"]), aliases,
    )  # fmt: skip


def _with_rates(architecture: Architecture, sms: int, clock_mhz: int, published: str) -> Architecture:
    """Return the SM of a product that publishes lower peaks than its architecture allows.

    Args:
        architecture: The architecture's SM.
        sms: SMs of the product.
        clock_mhz: Its clock.
        published: Dense peaks in TFLOP/s, such as `float64=1;float16=148`: float64 outside the tensor cores, the other
            types on them.
    """
    if not published:
        return architecture
    peaks = dict(word.split("=") for word in published.split(";"))
    lanes = {name: round(float(peak) * 1e6 / (2 * sms * clock_mhz)) for name, peak in peaks.items()}
    tensor = tuple((name, lanes.get(name, 0)) for name in _TENSOR if name != FLOAT64 and name in lanes)
    return replace(architecture, fp64_lanes=lanes[FLOAT64], tensor_rates=tensor)


def read_rows() -> tuple[dict[str, str], ...]:
    """Return the rows of `gpus.csv`, whose head says what each column is."""
    with (Path(__file__).parent / "gpus.csv").open(encoding="utf-8", newline="") as file:
        return tuple(csv.DictReader(line for line in file if not line.startswith("#")))


PRODUCTS: tuple[Gpu, ...] = tuple(map(_product, read_rows()))
"""All products in the table. The first one of an architecture represents it."""


def architecture_for(arch: str) -> Architecture:
    """Return the SM of an architecture, given as `sm_90`, `sm_90a`, `compute_90`, `90` or `9.0`.

    Raises:
        UserError: The architecture is not in the table.
    """
    match = re.fullmatch(r"(?:sm_|compute_)?(\d+)\.?(\d)[af]?", arch.strip().lower())
    architecture = ARCHITECTURES.get(f"sm_{match[1]}{match[2]}") if match else None
    if architecture is None:
        raise UserError(
            "unknown GPU architecture", code="unknown-name", key="arch", found=arch, accepted=tuple(ARCHITECTURES),
            suggestion=did_you_mean(arch, ARCHITECTURES),
        )  # fmt: skip
    return architecture


@cache  # called for every variant
def gpu_for(name_or_arch: str) -> Gpu:
    """Return the product with a name, or the representative product of an architecture.

    Case, punctuation and the words NVIDIA, Tesla and GeForce are ignored in names. An architecture means its first
    product in `PRODUCTS`: sm_70 V100 SXM2, sm_72 Jetson AGX Xavier, sm_75 T4, sm_80 A100 SXM 80GB,
    sm_86 RTX 3090, sm_87 Jetson AGX Orin 64GB, sm_89 L40S, sm_90 H200, sm_100 B200, sm_103 B300, sm_110 Jetson Thor
    T5000, sm_120 RTX 5090, sm_121 GB10.

    Raises:
        UserError: The table has neither a product nor an architecture of that name.
    """
    normalised = _normalised(name_or_arch)
    for gpu in PRODUCTS:
        if normalised in {_normalised(name) for name in (gpu.name, *gpu.aliases)}:
            return gpu
    if re.match(r"\s*(sm_|compute_|\d+\.?\d[af]?\s*$)", name_or_arch.lower()):
        return cards_of(name_or_arch)[0]
    names = tuple(gpu.name for gpu in PRODUCTS)
    aliases = tuple(alias for gpu in PRODUCTS for alias in gpu.aliases)
    raise UserError(
        "unknown GPU", code="unknown-name", key="gpu", found=name_or_arch, accepted=(*names, *ARCHITECTURES),
        suggestion=did_you_mean(" ".join(_words(name_or_arch)).upper(), names + aliases),
    )  # fmt: skip


def cards_of(arch: str) -> tuple[Gpu, ...]:
    """Return the products of an architecture, the one that stands for it first.

    Raises:
        UserError: The architecture is not in the table.
    """
    wanted = architecture_for(arch).arch
    return tuple(gpu for gpu in PRODUCTS if gpu.architecture.arch == wanted)


def runs_on(built_for: str, gpu: str) -> bool:
    """Return whether machine code runs on a GPU: on its own compute capability and on later minor versions of it.

    Code for an `a` or `f` target runs on its own capability alone (CUDA C++ Programming Guide, binary compatibility).
    """
    wanted, there = built_for.removeprefix("sm_"), gpu.removeprefix("sm_")
    if wanted[-1] in "af":
        return wanted[:-1] == there
    return wanted[:-1] == there[:-1] and int(wanted[-1]) <= int(there[-1])


def target_gpu(names: Iterable[str], arch: str) -> Gpu:
    """Return the GPU to predict for: the first of the names that runs the architecture's code, or the usual one.

    Raises:
        UserError: A name or the architecture is not in the table.
    """
    named = (gpu_for(name) for name in names)
    return next((gpu for gpu in named if runs_on(arch, gpu.architecture.arch)), None) or gpu_for(arch)


def ambiguity(names: Iterable[str], arch: str) -> str:
    """Return a sentence that names the cards an architecture may mean, where their estimates differ; or nothing.

    The architecture that the constants were measured on is left out: it has a card that estimates were compared with.

    Args:
        names: GPUs that the user named to predict for.
        arch: The architecture.
    """
    try:
        cards, target = cards_of(arch), target_gpu(names, arch)
    except UserError:  # an architecture outside the table has no prediction
        return ""
    named = any(runs_on(arch, gpu_for(name).architecture.arch) for name in names)
    if named or NEVER_COMPARED not in target.constants:
        return ""
    peaks = [gpu.peak_tflops("float32") for gpu in cards]
    rates = [gpu.dram_gb_s for gpu in cards if gpu.dram_gb_s is not None]
    if len({(*figures,) for figures in zip(peaks, rates, strict=True)}) == 1:
        return ""
    others = ", ".join(gpu.name for gpu in cards if gpu is not target)
    return (
        f"{arch} is the architecture of {len(cards)} GPUs, with {_span(rates)} GB/s and {_span(peaks)} TFLOP/s of "
        f"float32: predicted for {target.name}. "
        f"The key gpu or --gpu names another: {others}."
    )


def _span(values: Sequence[float]) -> str:
    """Return the least and the largest of some figures, or the one that all of them are when rounded."""
    least, largest = f"{min(values):,.0f}", f"{max(values):,.0f}"
    return least if least == largest else f"{least} to {largest}"


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
    """Return the table's name of a GPU named by the driver or a user, or the normalised words if it is not listed."""
    try:
        return gpu_for(name).name
    except UserError:
        return " ".join(_words(name))


def _words(name: str) -> list[str]:
    """Return the words of a name that distinguish products, in lower case."""
    return [word for word in re.findall(r"[a-z0-9.]+", name.lower()) if word not in {"nvidia", "tesla", "geforce"}]


def _normalised(name: str) -> str:
    """Normalise a name: `NVIDIA H100 80GB HBM3` becomes `h10080gbhbm3`."""
    return "".join(_words(name))
