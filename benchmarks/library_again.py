"""Grow the library logic of a tuning run again from the times that it measured, and draw its report again.

python benchmarks/library_again.py reports/gemm_tensile experiments/gemm_tensile.yaml

For changes of `lab.library`; no GPU is needed. Candidates are the kernels of the run's library, since only they have a
time at every held-out size. They are compiled here because the cluster size stands in the cubin; the folder of the
library stays as the run left it. The run may be one that `lab report` made of committed results.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from lab import __version__
from lab.base import environment, workers
from lab.hardware.gpus import Gpu, gpu_for
from lab.library.logic import evaluate
from lab.report.tuning import render as report
from lab.store.tuning import TuningStore
from lab.store.tuning_model import KernelFacts
from lab.toolchain.select import toolchain
from lab.tuning.bench import Ledger, Predicted
from lab.tuning.choose.protocol import Candidate
from lab.tuning.file.load import Group, Tuning, load
from lab.tuning.final import Run, final_of, grow, held_out, noted
from lab.tuning.kernels import Kernel, Workshop


def main() -> None:
    """Change the run's facts, and draw."""
    folder, tuning = Path(sys.argv[1]), load(Path(sys.argv[2]))
    with TuningStore(folder, create=True) as store:
        facts = store.noted("facts")
        known = {(one.type, one.name): one for one in store.kernels()}
        for name, library in facts["libraries"].items():
            facts["libraries"][name] |= again(tuning, store, known, library)
        by = " ".join(filter(None, [__version__, environment.commit()]))
        facts["grown_again"] = (
            f"The libraries' logic was grown again by lab {by}, from the times that the run measured."
        )
        store.note("facts", facts)
        for path in report.render(store):
            print(path)


def again(
    tuning: Tuning, store: TuningStore, known: Mapping[tuple[str, str], KernelFacts], library: Mapping[str, Any]
) -> dict[str, object]:
    """Return the facts of one library that change.

    Raises:
        SystemExit: its kernels are not those of the file, or nothing was measured.
    """
    kind = next(one for one in tuning.types if one.label == library["type"])
    candidates = [_candidate(tuning, known[kind.label, name]) for name in library["kernels"]]
    gpu = gpu_for(known[kind.label, library["kernels"][0]].arch)
    built = _built(candidates, known[kind.label, library["kernels"][0]].arch, gpu)
    kernels = [
        replace(one, facts=replace(known[kind.label, name], cluster=one.facts.cluster)) for name, one in built.items()
    ]
    ledger = Ledger(store)
    run = Run(tuning, Predicted(ledger, gpu, lambda *_: None), ledger, gpu)
    final = final_of(tuning, kind, kernels, frozenset())
    grown = grow(run, final)
    if grown is None:
        raise SystemExit(f"{store.folder} has no times of {kind.label}")
    loss, lost_between = evaluate(grown.logic, grown.over), held_out(run, final, grown.logic)
    return noted(grown.logic, loss, lost_between, grown.interpolated)


def _candidate(tuning: Tuning, facts: KernelFacts) -> Candidate:
    groups: list[Group] = [one for one in tuning.groups if one.name == facts.group and one.type.label == facts.type]
    if not groups:
        raise SystemExit(f"{tuning.file} has no group {facts.group} of {facts.type}")
    return Candidate(groups[0], facts.name, facts.parameters, {})


def _built(candidates: list[Candidate], arch: str, gpu: Gpu) -> dict[str, Kernel]:
    workers.prepare()
    with Workshop(toolchain("auto"), arch, gpu, workers.cores(), lambda _: None) as shop:
        return shop.make(candidates)


if __name__ == "__main__":
    main()
