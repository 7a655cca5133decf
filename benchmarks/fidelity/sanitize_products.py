"""Let compute-sanitizer watch every product on tensor cores once: each rung, in all layouts and several types.

Run ``python benchmarks/fidelity/sanitize_products.py`` where a GPU, PyCUDA and compute-sanitizer are. The settings
are those of the tests (`tests/support/hgemm_cases.py`). Each launch is prepared as `lab run` does it, and its
result is compared with the reference, too. Kernels are compiled first, several at a time; a process under
compute-sanitizer then launches several of them, since instrumenting takes longer than the launch.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pickle
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from itertools import cycle, product
from pathlib import Path

import measure  # noqa: F401  the module beside this one, which knows where the tests are
from hgemm_cases import CUTLASS, SETTINGS, arch, cutlass_problems, template

from lab.base.errors import LabError
from lab.base.expressions import Scalar
from lab.gpu.device.describe import probe
from lab.gpu.process.job import Job, Policy
from lab.hardware.gpus import from_description
from lab.measured.timing import GpuDescription
from lab.operators.builtin import operator
from lab.operators.gemm import GemmProblem
from lab.templates.instance import Instance
from lab.templates.launches import BuiltLaunch, Residency
from lab.toolchain import locate
from lab.toolchain.base import CompileRequest
from lab.toolchain.cache import Cache, default_folder
from lab.toolchain.select import build, toolchain

TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
_TYPES = (("bfloat16", "bfloat16"), ("float16", "float16"), ("bfloat16", "float32"))
_SIZE = {"m": 520, "n": 392, "k": 328, "alpha": -1.5, "beta": 0.5}
_AT_A_TIME = 12
_FOUND = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (\d+)")
_LAUNCHED = re.compile(r"^launched (.*): (.*)$", re.MULTILINE)

Case = tuple[str, str, Mapping[str, Scalar], GemmProblem]


def cases() -> Iterator[Case]:
    """Yield every setting in every layout, cycling through types; blocks take several tiles and wrap their rings."""
    types = cycle(_TYPES)
    for (label, (name, parameters)), layout in product(SETTINGS.items(), ("nn", "nt", "tn", "tt")):
        dtype, out_dtype = next(types)
        problem = operator("gemm").problem({**_SIZE, "layout": layout, "dtype": dtype, "out_dtype": out_dtype})
        yield f"{label}, {layout} {dtype} to {out_dtype}", name, parameters, problem
    if locate.cutlass() is not None:
        for label, (parameters, kinds) in CUTLASS.items():
            yield f"CUTLASS, {label}", "cutlass", parameters, list(cutlass_problems(parameters, kinds))[-1]


def prepared(case: Case, description: GpuDescription) -> Job | str:
    """Compile a case; what hinders it, in words, where it does not compile."""
    label, name, parameters, problem = case
    wanted = "sm_90a" if name == "cutlass" or arch(name).endswith("a") else description.arch
    try:
        instance = Instance.of(template(name), parameters, problem)
        request = CompileRequest(instance.source, "kernel.cu", wanted, ("-lineinfo",))
        made = build(toolchain("nvrtc"), request, Cache(default_folder())).build
        residency = Residency(from_description(description), made.resources)
        launches = instance.launches.built(BuiltLaunch.of(made, residency))
    except LabError as error:
        return f"{label}: {error}"
    return Job(label, made.cubin, launches, "gemm", problem)


def launch(file: Path) -> None:
    """Run jobs one after another, and say of each how it ended: the process that compute-sanitizer watches."""
    from lab.gpu.device.cuda import CudaBackend  # noqa: PLC0415 - others need no GPU
    from lab.gpu.process.runner import JobRunner  # noqa: PLC0415

    runner = JobRunner(CudaBackend(), lambda _: None)
    for job in pickle.loads(file.read_bytes()):  # noqa: S301 - written by this script
        failure = runner.answer(job, Policy(measure=False)).result.failure
        print(f"launched {job.variant}: {failure.reason if failure else 'right'}", flush=True)


def watched(tool: str, jobs: Sequence[Job], command: str, limit_s: int) -> tuple[int | None, dict[str, str], str]:
    """Launch jobs under a tool: its number of findings (None where it did not end), how each ended, and its words."""
    with tempfile.TemporaryDirectory() as folder:
        file, output = Path(folder) / "jobs.pickle", Path(folder) / "said"
        file.write_bytes(pickle.dumps(list(jobs)))
        words = [command, "--tool", tool, "--print-limit", "5", sys.executable, __file__, "--launch", str(file)]
        with output.open("w") as said, contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(words, stdout=said, stderr=subprocess.STDOUT, timeout=limit_s, check=False)
        text = output.read_text(errors="replace")
    counts = _FOUND.findall(text)
    return sum(map(int, counts)) if counts else None, dict(_LAUNCHED.findall(text)), text


def main() -> None:
    """Watch all cases under all tools and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--launch", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--command", default="compute-sanitizer", help="compute-sanitizer's command")
    parser.add_argument("--tools", nargs="*", default=TOOLS, choices=TOOLS)
    parser.add_argument("--each", type=int, default=8, help="launches in a process")
    parser.add_argument("--limit", type=int, default=150, help="seconds of a process")
    options = parser.parse_args()
    if options.launch:
        launch(options.launch)
        return
    description = probe()
    if isinstance(description, str):
        sys.exit(description)
    known = list(cases())
    with ProcessPoolExecutor() as pool:
        made = list(pool.map(prepared, known, [description] * len(known)))
    for refused in (one for one in made if isinstance(one, str)):
        print(f"not compiled: {refused}")
    jobs = [one for one in made if isinstance(one, Job)]
    parts = [jobs[i :: -(-len(jobs) // options.each)] for i in range(-(-len(jobs) // options.each))]
    tasks = list(product(options.tools, parts))
    with ThreadPoolExecutor(min(_AT_A_TIME, os.cpu_count() or 1)) as threads:
        ends = list(threads.map(lambda task: watched(task[0], task[1], options.command, options.limit), tasks))
    ended, right, findings = Counter[str](), Counter[str](), Counter[str]()
    for (tool, jobs_run), (count, launched, text) in zip(tasks, ends, strict=True):
        ended[tool] += len(launched)
        right[tool] += sum(end == "right" for end in launched.values())
        findings[tool] += count or 0
        for variant, end in launched.items():
            if end != "right":
                print(f"{tool}: {variant}: {end}")
        if count is None:
            print(
                f"{tool}: {len(jobs_run)} launches from {jobs_run[0].variant!r} on did not end within {options.limit} s"
            )
        elif count:
            print(f"{tool}: {count} findings\n{text[:4000]}")
    for tool in options.tools:
        print(f"{tool}: {ended[tool]} of {len(jobs)} launches watched, {right[tool]} right, {findings[tool]} findings")


if __name__ == "__main__":
    main()
