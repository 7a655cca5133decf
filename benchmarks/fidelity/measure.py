"""Emulate and measure the same launches: address patterns, the ladder's kernels, and the emulator's test kernels.

Run ``python benchmarks/fidelity/measure.py`` where a GPU, PyCUDA and Nsight Compute are; it writes `h200.json` beside
itself (or the file named), which ``write.py`` turns into docs/results/fidelity.md. Clocks are left alone.
"""

from __future__ import annotations

import argparse
import json
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np

from lab.emulator.api import launch
from lab.emulator.program import Program
from lab.emulator.results import Buffer, Emulation, MemoryCount
from lab.experiment.load import load
from lab.experiment.space import expand
from lab.experiment.variants import plan, toolchains
from lab.gpu.counters.ncu import ProfilerError, collect, version
from lab.isa.model import Module
from lab.isa.ptx.module import read_ptx
from lab.stages import emulate
from lab.templates.instance import Instance
from lab.toolchain.base import CompileRequest
from lab.toolchain.select import build, toolchain

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "tests" / "support")]

import cases  # noqa: E402
import compiling  # noqa: E402
import patterns  # noqa: E402
from hardware import Prepared  # noqa: E402

METRICS = {
    "ffma_threads": "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
    "shared_load_requests": "smsp__sass_inst_executed_op_shared_ld.sum",
    "shared_store_requests": "smsp__sass_inst_executed_op_shared_st.sum",
    "shared_load_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared_store_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "global_load_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "global_load_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "global_store_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "global_store_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "shared_copy_requests": "sm__sass_inst_executed_op_ldgsts.sum",
    "shared_copy_wavefronts": "sm__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts.sum",
    "global_copy_requests": "sm__sass_l1tex_t_requests_pipe_lsu_mem_global_op_ldgsts.sum",
    "global_copy_sectors": "sm__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ldgsts.sum",
}
"""Our names of the figures that can be compared, and Nsight Compute's."""

_SAYS = (
    ("shared_copy", ("shared_copy", "global_copy")),
    ("shared", ("shared_load", "shared_store")),
    ("global", ("global_load", "global_store")),
    ("", tuple(METRICS)),
)
"""Groups of launches, the first that fits, and the figures that say something of them: each costs ncu a pass."""

AWKWARD = {"m": 131, "n": 67, "k": 33}
"""A second size for the ladder: no tile divides it."""


Size = int | Sequence[int]


@dataclass(frozen=True, slots=True)
class Compared:
    """A launch and what the emulator counted in it."""

    launch: Prepared
    group: str
    emulated: dict[str, int]


def emulated_figures(emulation: Emulation) -> dict[str, int]:
    """The emulator's counts under the names of `METRICS`."""
    counts = emulation.counts
    if counts is None:
        raise ValueError("an emulation without counts")
    figures = {
        "ffma_threads": sum(n for op, n in counts.threads_by_opcode.items() if op.startswith("fma.") and "f32" in op)
    }
    for name in ("shared_load", "shared_store", "shared_copy", "global_load", "global_store", "global_copy"):
        count = counts.memory.get(name.replace("_", "."), MemoryCount())
        figures[f"{name}_requests"] = count.requests
        key = "wavefronts" if name.startswith("shared") else "sectors"
        figures[f"{name}_{key}"] = getattr(count, key)
    return figures


@dataclass(frozen=True, slots=True)
class _Launched:
    """One launch in the emulator: what PyCUDA needs to repeat it, and its result."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    values: tuple[object, ...]
    done: Emulation


class _Recorder:
    """Stands in for `launch` and keeps every launch."""

    def __init__(self) -> None:
        self.seen: list[_Launched] = []

    def __call__(
        self,
        ptx: str | Module,
        kernel: str,
        grid: Size,
        block: Size,
        args: Sequence[object],
        *,
        dynamic_shared_bytes: int = 0,
    ) -> Emulation:
        before = [_plain(value) for value in args]
        emulation = launch(ptx, kernel, grid, block, args, dynamic_shared_bytes=dynamic_shared_bytes)
        module = read_ptx(ptx) if isinstance(ptx, str) else ptx
        types = Program(module, kernel).kernel.parameters
        values = tuple(
            value if isinstance(value, np.ndarray) else _scalar(value, parameter.type)
            for value, parameter in zip(before, types, strict=True)
        )
        self.seen.append(_Launched(kernel, _three(grid), _three(block), dynamic_shared_bytes, values, emulation))
        return emulation


def _plain(value: object) -> object:
    if isinstance(value, Buffer):
        value = value.array
    return value.copy() if isinstance(value, np.ndarray) else value


def _scalar(value: object, ptx_type: str) -> object:
    if isinstance(value, np.float16):  # `struct`, which PyCUDA packs with, has no native half
        return value.view(np.uint16)
    if isinstance(value, np.generic):
        return value
    return np.dtype({"u": "uint", "s": "int", "b": "uint", "f": "float"}[ptx_type[0]] + ptx_type[1:]).type(value)


def _three(size: Size) -> tuple[int, int, int]:
    x, y, z = (*((size,) if isinstance(size, int) else tuple(size)), 1, 1)[:3]
    return int(x), int(y), int(z)


def recorded(group: str, name: str, cubin: bytes, execute: Callable[[], object]) -> Iterator[Compared]:
    """Yield the launches that `execute` makes in the emulator."""
    recorder = _Recorder()
    with patch.object(emulate, "launch", recorder), patch.object(cases, "launch", recorder):
        execute()
    for one in recorder.seen:
        prepared = Prepared(name, cubin, one.kernel, one.grid, one.block, one.shared_bytes, one.values)
        yield Compared(prepared, group, emulated_figures(one.done))


def pattern_launches() -> Iterator[Compared]:
    """One launch a pattern."""
    built = build(toolchain("nvrtc"), CompileRequest(patterns.source(), "patterns.cu", "sm_90")).build
    module = read_ptx(built.ptx)
    data, out = np.zeros(patterns.GLOBAL_BYTES, np.uint8), np.zeros(patterns.LANES, np.uint32)
    for pattern in patterns.patterns():
        args = (np.concatenate([pattern.offsets, pattern.sources]), data, out)
        emulation = launch(module, pattern.kernel, 1, patterns.LANES, args, check=False)
        prepared = Prepared(pattern.name, built.cubin, pattern.kernel, (1, 1, 1), (patterns.LANES, 1, 1), 0, args)
        yield Compared(prepared, pattern.kernel, emulated_figures(emulation))


def ladder_launches() -> Iterator[Compared]:
    """The rungs of the ladder, at the experiment's size for the emulator and at an awkward one."""
    experiment = load(ROOT / "experiments" / "gemm_ladder.yaml")
    small = experiment.problems[0].emulate
    if small is None:
        raise SystemExit("the ladder has no size for the emulator")
    leading = dict.fromkeys(("lda", "ldb", "ldc"))
    awkward = {key: value for key, value in {**small, **AWKWARD}.items() if key not in leading}
    for planned in plan(experiment, expand(experiment).points, toolchains(experiment), experiment.archs):
        built = build(planned.toolchain, planned.request).build
        for problem in (small, experiment.operator.problem(awkward)):
            launched = Instance(planned.point.kernel.template, planned.point.parameters, problem).launches
            task = emulate.EmulationTask(launched, experiment.operator_reference, problem, experiment.seed, {})
            name = f"{planned.point.kernel.name}, {problem['m']} x {problem['n']} x {problem['k']}"
            yield from recorded("ladder", name, built.cubin, partial(emulate.emulate, task, built.ptx))


def family_launches() -> Iterator[Compared]:
    """The emulator's test kernels."""
    for source, case in cases.CASES:
        built = build(toolchain("nvrtc"), CompileRequest(compiling.source(source), f"{source}.cu", "sm_90")).build
        yield from recorded("families", f"{source}: {case.__name__}", built.cubin, partial(case, built.ptx))


def measured(compared: Sequence[Compared], ncu: str) -> list[dict[str, int]]:
    """Nsight Compute's counters of each launch, in order: those that say something of its group."""
    counters: dict[int, dict[str, int]] = {}
    for group, names in _SAYS:
        at = [i for i, one in enumerate(compared) if i not in counters and one.group.startswith(group)]
        metrics = {name: metric for name, metric in METRICS.items() if name.startswith(names)}
        counters.update(zip(at, _profile([compared[i].launch for i in at], metrics, ncu), strict=True))
    return [counters[i] for i in range(len(compared))]


def _profile(launches: Sequence[Prepared], metrics: dict[str, str], ncu: str) -> list[dict[str, int]]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "launches.pickle"
        file.write_bytes(pickle.dumps(tuple(launches)))
        target = [sys.executable, str(HERE / "hardware.py"), str(file)]
        try:
            collected = collect(ncu, list(metrics.values()), target, flush=True)
        except ProfilerError as error:
            raise SystemExit(str(error)) from error
    if collected.unknown:
        raise SystemExit(f"ncu does not know {', '.join(collected.unknown)}")
    if len(collected.rows) != len(launches):
        raise SystemExit(f"ncu saw {len(collected.rows)} launches of {len(launches)}")
    strange = [
        row for row, launch in zip(collected.rows, launches, strict=True) if not row.kernel.startswith(launch.kernel)
    ]
    if strange:
        raise SystemExit(f"ncu saw another order of kernels: {strange[0].kernel}")
    return [{name: int(row.values[metric]) for name, metric in metrics.items()} for row in collected.rows]


def _machine(ncu: str) -> dict[str, str]:
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    gpu, driver = subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip().split(", ")
    ours = toolchain("auto")
    return {
        "gpu": gpu,
        "driver": driver,
        "ncu": version(ncu),
        "ladder compiler": f"{ours.name} {ours.version}",
        "pattern compiler": f"nvrtc {toolchain('nvrtc').version}",
    }


def main() -> None:
    """Measure everything and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", nargs="?", type=Path, default=HERE / "h200.json")
    parser.add_argument("--ncu", default="ncu", help="Nsight Compute's command")
    options = parser.parse_args()
    compared = [*pattern_launches(), *ladder_launches(), *family_launches()]
    rows = [
        {
            "group": one.group,
            "name": one.launch.name,
            "emulated": {name: one.emulated[name] for name in row},
            "measured": row,
        }
        for one, row in zip(compared, measured(compared, options.ncu), strict=True)
    ]
    lines = ",\n".join(json.dumps(row) for row in rows)
    options.output.write_text(f'{{"machine": {json.dumps(_machine(options.ncu))}, "launches": [\n{lines}\n]}}\n')
    print(f"{len(rows)} launches in {options.output}")


if __name__ == "__main__":
    main()
