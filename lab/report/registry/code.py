"""Columns of a kernel's machine code, and the conditions of its build and timing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lab.measured.timing import Kind
from lab.recorded.run_records import VariantRecord
from lab.report.columns import Column, Getter
from lab.report.registry.getters import built, card, hot, timed
from lab.store import figures
from lab.store.role_figures import RoleRegisters, registers_by_role, role_registers

S, P, M = Kind.STATIC, Kind.PREDICTED, Kind.MEASURED


def _label(record: VariantRecord, isa: str) -> str | None:
    mix = record.ptx if isa == "ptx" else record.sass
    if mix is None:
        return None
    return mix.hot_name


def _live(record: VariantRecord) -> int | None:
    if record.sass is None:
        return None
    return (record.sass.hot_loop or record.sass).live_registers


def _of_role(get: Callable[[RoleRegisters], tuple[int, ...]]) -> Getter:
    """Return a getter for the largest register count of a role."""

    def value(record: VariantRecord) -> int | None:
        roles = role_registers(record)
        return None if roles is None else max(get(roles), default=None)

    return value


CODE: Final = (
    Column(
        "registers_by_role",
        "registers by role",
        S,
        registers_by_role,
        shown=True,
        about="per thread, after setmaxnreg; consumers reach matrix instructions, producers only fetch",
    ),
    Column(
        "producer_registers",
        "registers of producers",
        S,
        _of_role(lambda roles: roles.producers),
        format=",d",
        about="per thread of warps that setmaxnreg changes and that only fetch; the most of several",
    ),
    Column(
        "consumer_registers",
        "registers of consumers",
        S,
        _of_role(lambda roles: roles.consumers),
        format=",d",
        about="per thread of warps that reach matrix instructions; without setmaxnreg, as allotted to every thread",
    ),
    Column("cache", "L2 cache", M, timed(lambda m: m.cache), about="cold: flushed before each repetition; warm: not"),
    Column("sm_clock_mhz", "SM clock", M, card(lambda c: c.sm_clock_mhz), "MHz", ",d"),
    Column(
        "ptx_fma_over_fma_plus_ld_shared",
        "PTX fma/(fma+ld.shared)",
        S,
        hot("ptx", lambda c: c.fma_over_fma_plus_ld_shared),
        format=".3f",
    ),
    Column(
        "sass_fma_over_fma_plus_ld_shared",
        "SASS fma/(fma+ld.shared)",
        S,
        hot("sass", lambda c: c.fma_over_fma_plus_ld_shared),
        format=".3f",
    ),
    Column(
        "sass_fma_per_ld_shared", "SASS fma : ld.shared", S, hot("sass", lambda c: c.fma_per_ld_shared), format=".2f"
    ),
    Column(
        "sass_shared_bytes_per_fma",
        "shared bytes per fma",
        S,
        hot("sass", lambda c: c.bytes_per_fma_shared),
        "B",
        ".2f",
    ),
    Column("ptx_fma", "PTX fma", S, hot("ptx", lambda c: c.fma), format=",d"),
    Column(
        "ptx_ld_shared",
        "PTX ld.shared",
        S,
        hot("ptx", lambda c: c.ld_shared),
        format=",d",
    ),
    Column(
        "ptx_instructions",
        "PTX hot-loop length",
        S,
        hot("ptx", lambda c: c.instructions),
        format=",d",
    ),
    Column(
        "sass_instructions",
        "SASS hot-loop length",
        S,
        hot("sass", lambda c: c.instructions),
        format=",d",
    ),
    Column(
        "sass_live_registers",
        "live registers",
        S,
        _live,
        format=",d",
        about="most live general-purpose registers in the SASS hot loop",
    ),
    Column(
        "sass_wide_fences",
        "GPU-wide fences",
        S,
        lambda r: figures.wide_fences(r.sass),
        format=",d",
        about="MEMBAR of the GPU or the system in the SASS hot loop, which releases wider than a block become",
    ),
    Column("ptx_hot_loop", "PTX hot loop", S, lambda r: _label(r, "ptx")),
    Column("sass_hot_loop", "SASS hot loop", S, lambda r: _label(r, "sass")),
    Column("limited_by", "occupancy limited by", P, lambda r: r.prediction.limited_by if r.prediction else None),
    Column(
        "peak_tflops",
        "peak",
        P,
        figures.peak,
        "TFLOP/s",
        ".1f",
        about="of the GPU, for the kernel's arithmetic type",
    ),
    Column("toolchain", "toolchain", None, built(lambda b: b.toolchain)),
    Column("toolchain_version", "toolchain version", None, built(lambda b: b.version)),
    Column("arch", "arch", None, lambda r: r.arch),
    Column("compile_seconds", "compile time", None, built(lambda b: b.seconds), "s", ".2f"),
    Column("sass_sha256", "SASS hash", S, built(lambda b: b.sass_sha256)),
    Column("folder", "folder", None, lambda r: f"variants/{r.variant}"),
)
