"""Run directories made by hand, with listings and counts that agree with each other."""

from __future__ import annotations

import hashlib
import itertools
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from lab.isa.classes import classify
from lab.isa.mix import Counts, KernelMix, LoopMix
from lab.isa.model import Isa
from lab.measured.timing import CardState, GpuDescription, Measurement, Samples, Verification
from lab.recorded.predictions import Bound, Prediction
from lab.recorded.run_records import BuildRecord, LaunchRecord, RunRecord, Status, VariantRecord
from lab.store.database import Store
from lab.toolchain.base import Resources

N = 4096
FLOPS = 2 * N**3
PEAK = 66.9
GPU = GpuDescription("NVIDIA H200", "sm_90", 132, 1980, 150_754_820_096, 52_428_800, "580.159.04", "13.0")
NOT_MEASURED = "No CUDA GPU was found: libcuda.so.1 is missing."
NAMES = {
    "ptx": {
        "fma": "fma.rn.f32",
        "lds": "ld.shared.v4.f32",
        "ldg": "ld.global.v4.f32",
        "sts": "st.shared.f32",
        "int": "add.s32",
        "cmp": "setp.lt.s32",
        "bra": "bra",
        "mov": "mov.u32",
        "bar": "bar.sync",
        "end": "ret",
    },
    "sass": {
        "fma": "FFMA",
        "lds": "LDS.128",
        "ldg": "LDG.E.128",
        "sts": "STS",
        "int": "IADD3",
        "cmp": "ISETP.LT.AND",
        "bra": "BRA",
        "mov": "MOV",
        "bar": "BAR.SYNC",
        "end": "EXIT",
    },
}


def counts(isa: Isa, opcodes: list[str]) -> Counts:
    by_class = Counter(str(classify(isa, opcode)) for opcode in opcodes)
    loads = by_class["ld.shared"] * 16
    return Counts(len(opcodes), dict(by_class), dict(Counter(opcodes)), loads, by_class.get("ld.global", 0) * 16)


@cache
def listing(isa: Isa, fma: int, lds: int, other: int) -> tuple[str, KernelMix]:
    """A kernel with one loop of so many instructions, as text and as counts."""
    name = NAMES[isa]
    body = [name[k] for k in (["ldg", "sts", "bar"] + ["lds"] * lds + ["fma"] * fma + ["int"] * other + ["cmp", "bra"])]
    opcodes = [name["mov"]] * 6 + body + [name["end"]]
    head = (
        ["//", ".version 9.5", ".visible .entry gemm(", ")", "{"]
        if isa == "ptx"
        else ["\t.target\tsm_90", ".text.gemm:"]
    )
    lines, first = list(head), 0
    for index, opcode in enumerate(opcodes):
        if index == 6:
            lines.append("$L__BB0_2:" if isa == "ptx" else ".L_x_2:")
            first = len(lines) + 1
        if isa == "ptx":
            lines.append(f"\t{opcode} \t%r{index % 90}, %r{index % 7}, %r3;")
        else:
            code = f"        /*{index * 16:04x}*/                   {opcode} R{index % 200}, R{index % 7}, R3 ;"
            lines.append(f"{code:<79}// |  {20 + fma // 4 + index % 5:>3}  |   1    |   2    |")
    last = first + len(body) - 1
    label = "$L__BB0_2" if isa == "ptx" else ".L_x_2"
    live = None if isa == "ptx" else 24 + fma // 4
    loop = LoopMix(label, 1, None, True, counts(isa, body), first, last, ((first, last),), live)
    return "\n".join([*lines, ""]), KernelMix(isa, "gemm", counts(isa, opcodes), (loop,), live)


SOURCE = """// {label}
extern "C" __global__ void __launch_bounds__(256) gemm(int m, int n, int k, float alpha,
    const float* __restrict__ a, const float* __restrict__ b, float beta, float* c) {{
  __shared__ float tile[{bk}][128];
  if (m < 1 && n > 2) return;  // <b>not markup</b>
#pragma unroll {unroll}
  for (int i = 0; i < k; ++i) c[i] = fmaf(a[i], b[i], beta);
}}
"""


@cache
def samples(ms: float, seed: int) -> Samples:
    noise = np.random.default_rng(seed).normal(1, 0.004, 31)
    return Samples(tuple(float(ms * max(0.97, v)) for v in noise))


def variant(
    kernel: str,
    parameters: dict[str, Any],
    label: str,
    fma: int,
    lds: int,
    other: int,
    efficiency: float,
    *,
    measured: bool,
    seed: int = 0,
) -> tuple[VariantRecord, dict[str, str]]:
    ptx_text, ptx = listing("ptx", fma, lds, other + 3)
    sass_text, sass = listing("sass", fma, lds, other)
    hot = sass.loops[0].counts
    issue = PEAK * fma / hot.instructions
    shared = PEAK * min(1.0, fma / (lds * 8)) if lds else PEAK
    key = hashlib.sha256(repr((kernel, sorted(parameters.items()))).encode()).hexdigest()[:10]
    registers = min(255, 32 + fma // 2)
    bounds = (
        Bound("issue slots", issue, f"{fma} FFMA of {hot.instructions} issued"),
        Bound("shared memory", shared, f"{lds * 512} B per warp for {fma} FFMA"),
        Bound("DRAM", 410.0, "201 MB at 4.8 TB/s"),
    )
    rate = min(issue, shared) * efficiency
    measurement = None
    if measured:
        card = CardState(1755, 3201, 612.0, 58, ())
        measurement = Measurement(
            samples(FLOPS / rate / 1e9, seed),
            samples(FLOPS / 51.7 / 1e9, seed + 1),
            "cublas",
            "warm",
            card,
            replace(card, power_w=655.0, temperature_c=61),
        )
    record = VariantRecord(
        key,
        kernel,
        label,
        "gemm/tiled.cu.j2",
        parameters,
        {"m": N, "n": N, "k": N, "dtype": "float32"},
        "sm_90",
        Status.VERIFIED if measured else Status.INSPECTED,
        "",
        FLOPS,
        3 * 4 * N * N,
        LaunchRecord((32, 32, 1), (256, 1, 1), 0),
        BuildRecord(
            "nvrtc",
            "13.5.37",
            "nvrtc -arch=sm_90 -lineinfo kernel.cu",
            Resources(registers, 0, 0, 0, 8448, 400, 1),
            hashlib.sha256(sass_text.encode()).hexdigest(),
            0.21,
            False,
            "nvdisasm 13.5.37",
        ),
        ptx,
        sass,
        Prediction("NVIDIA H200", 0.25 if registers > 64 else 0.5, 2, "registers", PEAK, bounds),
        Verification(True, 3.1e-7, 1e-5, "", "NVIDIA H200") if measured else None,
        measurement,
        compiler="nvrtc 13.5.37",
    )
    texts = {
        "kernel.cu": SOURCE.format(label=label, unroll=parameters.get("unroll", 1), bk=parameters.get("block_k", 8)),
        "kernel.ptx": ptx_text,
        "kernel.sass": sass_text,
        "build.log": "ptxas info    : Used 128 registers, 0 bytes spill\n",
        "provenance.json": f'{{"variant": "{key}"}}\n',
    }
    return record, texts


def run_record(experiment: str, swept: tuple[str, ...], variants: int, *, measured: bool) -> RunRecord:
    return RunRecord(
        experiment,
        "What does unrolling the k loop do to the FMA share, and does it pay?",
        "gemm",
        {"m": N, "n": N, "k": N, "dtype": "float32"},
        f"# the question\nquestion: What does unrolling do?\noperator: gemm\nkernels:\n"
        f"  - template: gemm/{experiment}.cu.j2\n",
        f"python -m lab run experiments/{experiment}.yaml",
        "2026-11-21T04:00:00+00:00",
        "0.1.0",
        "d7e8f98+dirty",
        "3.11.9 on Linux-6.1-x86_64",
        {"numpy": "2.4.6", "cuda-bindings": "13.5.0"},
        GPU if measured else None,
        "" if measured else NOT_MEASURED,
        {"": "cublas (torch 2.11.0, sm80_xmma_gemm_f32f32)"} if measured else {},
        swept,
        variants,
    )


def write(folder: Path, run: RunRecord, variants: list[tuple[VariantRecord, dict[str, str]]]) -> Store:
    store = Store(folder / run.experiment, create=True)
    store.write_run(run)
    for position, (record, texts) in enumerate(variants):
        store.write(record, position)
        store.write_files(record.variant, texts)
    return store


def sweep(*, measured: bool) -> list[tuple[VariantRecord, dict[str, str]]]:
    variants = []
    for seed, (unroll, double, width) in enumerate(itertools.product((1, 2, 4, 8), (False, True), (1, 2, 4))):
        padding = 4
        parameters = {
            "block_m": 128,
            "block_k": 8,
            "unroll": unroll,
            "padding": padding,
            "double_buffer": double,
            "vector_width": width,
        }
        label = f"unroll={unroll} double_buffer={str(double).lower()} vector_width={width}"
        efficiency = 0.72 + 0.04 * double + 0.02 * np.log2(width) + 0.01 * (seed % 3)
        variants.append(
            variant(
                "tiled",
                parameters,
                label,
                64 * unroll,
                16 // width * unroll,
                12 + 3 * unroll,
                efficiency,
                measured=measured,
                seed=seed,
            )
        )
    return variants


def ladder(*, measured: bool) -> list[tuple[VariantRecord, dict[str, str]]]:
    rungs = [
        ("v0", 4, 8, 9, 0.06),
        ("v1", 4, 8, 9, 0.3),
        ("v2", 4, 8, 4, 0.3),
        ("v3", 8, 16, 5, 0.2),
        ("v4", 8, 16, 4, 0.6),
        ("v5", 16, 8, 6, 0.55),
        ("64x64", 64, 8, 8, 0.85),
        ("128x128", 512, 32, 24, 0.91),
    ]
    return [
        variant(name, {"unroll": 1}, name, fma, lds, other, efficiency, measured=measured, seed=seed)
        for seed, (name, fma, lds, other, efficiency) in enumerate(rungs)
    ]


def failed(record: VariantRecord, status: Status, reason: str) -> VariantRecord:
    """The record as it would stand had its variant ended so."""
    if status is Status.COMPILE_FAILED:
        return replace(
            record,
            status=status,
            reason=reason,
            build=None,
            ptx=None,
            sass=None,
            prediction=None,
            verification=None,
            measurement=None,
        )
    check = Verification(False, 0.5, 1e-5, "C[12, 7]: got 1.5, expected 1.25", "NVIDIA H200")
    return replace(
        record,
        status=status,
        reason=reason,
        measurement=None,
        verification=check if status is Status.WRONG else None,
    )


HOSTILE = "</script><script>alert(1)</script>"
Make = Callable[[str], Store]


@cache
def _kept() -> tempfile.TemporaryDirectory[str]:
    """Return the folder of cached run directories; copying one takes a tenth of the time of writing it."""
    return tempfile.TemporaryDirectory(prefix="lab-written-", ignore_cleanup_errors=True)


def make_store(folder: Path, what: str) -> Store:
    """One of the run directories by name."""
    written = Path(_kept().name) / what
    if not written.is_dir():
        _written(written, what).close()
    (run,) = written.iterdir()
    shutil.copytree(run, folder / run.name, dirs_exist_ok=True)
    return Store(folder / run.name, create=True)


def _written(folder: Path, what: str) -> Store:
    swept = ("unroll", "double_buffer", "vector_width")
    if what == "sweep":
        variants = sweep(measured=True)
        return write(folder, run_record("gemm_unroll", swept, len(variants), measured=True), variants)
    if what == "no_gpu":
        variants = sweep(measured=False)
        return write(folder, run_record("gemm_no_gpu", swept, len(variants), measured=False), variants)
    if what == "ladder":
        return write(folder, run_record("gemm_ladder", (), 8, measured=True), ladder(measured=True))
    if what == "failures":
        variants = sweep(measured=True)
        for index, (status, reason) in enumerate(
            [
                (Status.COMPILE_FAILED, 'kernel.cu(5): error: identifier "tille" is undefined'),
                (Status.WRONG, "C[12, 7]: got 1.5, expected 1.25"),
                (Status.NOT_EXECUTED, "no result within 60 s"),
                (Status.NOT_EXECUTED, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"),
            ]
        ):
            record, texts = variants[index]
            if status is Status.COMPILE_FAILED:
                texts = {
                    "kernel.cu": texts["kernel.cu"],
                    "build.log": "\n".join(f"line {i}" for i in range(60)) + "\nkernel.cu(5): error\n",
                }
            variants[index] = failed(record, status, reason), texts
        return write(folder, run_record("gemm_failures", swept, len(variants) + 3, measured=True), variants)
    if what == "hostile":
        variants = []
        for seed, value in enumerate(("a.b[0]", "'\"<img src=x onerror=alert(2)>")):
            parameters = {HOSTILE: value, "<script>": seed, "__proto__": 1}
            variants.append(
                variant(HOSTILE, parameters, f"{HOSTILE}={value}", 64, 4, 9, 0.8 + seed / 10, measured=True, seed=seed)
            )
            variants[-1][1]["build.log"] = HOSTILE
        run = run_record("hostile", (HOSTILE, "<script>"), 2, measured=True)
        return write(
            folder,
            replace(run, question=f"Is {HOSTILE} text?", notes=("<b>note</b>",), source=f"question: '{HOSTILE}'\n"),
            variants,
        )
    raise ValueError(what)
