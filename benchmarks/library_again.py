"""Grow the library logic of a tuning run again from the times that it measured, and draw its report again.

python benchmarks/library_again.py reports/gemm_tensile experiments/gemm_tensile.yaml
python benchmarks/library_again.py reports/gemm_tensile experiments/gemm_tensile.yaml --compile nvcc

For changes of `lab.library`; no GPU is needed. Candidates are the kernels of the run's library, since only they have a
time at every held-out size. They are compiled here because the cluster size stands in the cubin; a library's folder,
where the run left one, is written again with the cubins that it has, or with `--compile` with what the templates make
now. The run may be one that `lab report` made of committed results, with the folders of a packed library beside it.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from lab.base import environment, workers
from lab.base.executor import ProcessExecutor
from lab.base.version import VERSION
from lab.hardware.gpus import Gpu, gpu_for
from lab.library.archive import stored
from lab.report.tuning import render as report
from lab.store.tuning import TuningStore
from lab.store.tuning_model import KernelFacts, LibraryFacts
from lab.toolchain.select import toolchain
from lab.tuning import grow
from lab.tuning.bench import Ledger, PredictedBench
from lab.tuning.candidate_builds import Kernel, Workshop
from lab.tuning.choose.protocol import Candidate
from lab.tuning.file.load import Group, Tuning, load
from lab.tuning.race import TuningContext, final_of


def main() -> None:
    """Change the run's facts, and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="run directory")
    parser.add_argument("tuning", type=Path, help="the file that was tuned")
    parser.add_argument("--compile", metavar="TOOLCHAIN", help="take machine code of the templates as they are")
    options = parser.parse_args()
    folder, tuning = options.run, load(options.tuning)
    with TuningStore(folder, create=True) as store:
        facts = store.facts()
        stored_kernels = {(kernel.type, kernel.name): kernel for kernel in store.kernels()}
        libraries = {
            name: again(tuning, store, stored_kernels, library, compiler=options.compile)
            for name, library in facts.libraries.items()
        }
        note = f"The libraries' logic was grown again by lab {by_whom()}, from the times that the run measured."
        store.write_facts(replace(facts, libraries=libraries, grown_again=note))
        for path in report.render(store):
            print(path)


def again(
    tuning: Tuning,
    store: TuningStore,
    stored_kernels: Mapping[tuple[str, str], KernelFacts],
    library: LibraryFacts,
    *,
    compiler: str | None = None,
) -> LibraryFacts:
    """Return the run's facts of one library with its new logic; cubins come from the run or are compiled now.

    Raises:
        SystemExit: its kernels are not those of the file, or nothing was measured.
    """
    kind = next(one for one in tuning.types if one.label == library.type)
    candidates = [_candidate(tuning, stored_kernels[kind.label, name]) for name in library.kernels]
    arch = stored_kernels[kind.label, library.kernels[0]].arch
    gpu = gpu_for(arch)
    built = _built(candidates, arch, gpu, compiler or "auto")
    kernels = [
        replace(one, facts=replace(stored_kernels[kind.label, name], cluster=one.facts.cluster))
        for name, one in built.items()
    ]
    ledger = Ledger(store)
    context = TuningContext(tuning, PredictedBench(ledger, gpu, lambda *_: None), ledger, gpu)
    final = final_of(tuning, kind, kernels, frozenset())
    grown = grow.grow(context, final)
    if grown is None:
        raise SystemExit(f"{store.folder} has no times of {kind.label}")
    asked = tuning.library
    folder = store.folder / f"{asked.name if asked else ''}_{kind.layout}"
    if not folder.is_dir():
        return grow.facts_of(context, final, grown)
    (earlier,) = stored(folder)
    if compiler:
        cubins = {name: kernel.cubin for name, kernel in built.items()}
    else:
        cubins = {kernel.name: earlier.cubins[kernel.cubin] for kernel in earlier.library.kernels}
    shutil.rmtree(folder)
    source = f"{earlier.library.source}; logic grown{' and kernels compiled' if compiler else ''} again by {by_whom()}"
    times = earlier.library.times
    return grow.write(context, final, grown, folder, times=times, source=source, cubins=cubins).facts


def by_whom() -> str:
    """Return the version of lab that grows, and its commit."""
    return " ".join(filter(None, [VERSION, environment.commit()]))


def _candidate(tuning: Tuning, facts: KernelFacts) -> Candidate:
    groups: list[Group] = [
        group for group in tuning.groups if group.name == facts.group and group.type.label == facts.type
    ]
    if not groups:
        raise SystemExit(f"{tuning.file} has no group {facts.group} of {facts.type}")
    return Candidate(groups[0], facts.name, facts.parameters, {})


def _built(candidates: list[Candidate], arch: str, gpu: Gpu, compiler: str) -> dict[str, Kernel]:
    workers.prepare()
    with ProcessExecutor(workers.cores()) as executor:
        return Workshop(toolchain(compiler), arch, gpu, executor, lambda _: None).make(candidates)


if __name__ == "__main__":
    main()
