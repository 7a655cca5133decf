"""Read what a warp alone waits for in the kernels of committed reports, whose records lack it, and keep it beside this.

python benchmarks/read_chains.py plain/nbody others/matmul softmax_half …

builds the variants with the compiler that the records name, and adds the chains of their SASS (`lab.predict.chains`)
to benchmarks/chains.json.xz. benchmarks/score_agreement.py takes them from there. No GPU is needed. A variant whose
machine code is not the one that was measured is left out.
"""

from __future__ import annotations

import json
import lzma
import sys
from collections.abc import Mapping, Sequence
from dataclasses import astuple, replace
from pathlib import Path

from estimate_again import _planned, experiment_of  # the module beside this one

from lab.isa.mix import KernelMix, WarpChain
from lab.stages.build import Built, build, build_task
from lab.store import published
from lab.store.model import VariantRecord

ROOT = Path(__file__).parents[1]
KEPT = Path(__file__).parent / "chains.json.xz"
_TOGETHER = 8
_DIGITS = 3

Chains = Mapping[str, Mapping[str, Mapping[str, WarpChain]]]
"""By hash of the SASS: by kernel's symbol: by loop."""


def read() -> Chains:
    """What was read; empty where nothing was."""
    kept = json.loads(lzma.decompress(KEPT.read_bytes())) if KEPT.exists() else {}
    return {
        sass: {name: {label: WarpChain(*one) for label, one in loops.items()} for name, loops in kernels.items()}
        for sass, kernels in kept.items()
    }


def write(found: Chains) -> None:
    """Keep what was read."""
    kept = {
        sass: {
            name: {label: [round(x, _DIGITS) for x in astuple(one)] for label, one in loops.items()}
            for name, loops in kernels.items()
        }
        for sass, kernels in sorted(found.items())
    }
    KEPT.write_bytes(lzma.compress(json.dumps(kept).encode(), preset=9))


def with_chains(record: VariantRecord, known: Chains) -> VariantRecord:
    """The record with the chains that were read later, where it lacks them."""
    found = known.get(record.build.sass_sha256) if record.build is not None else None
    if found is None:
        return record

    def filled(mix: KernelMix | None) -> KernelMix | None:
        return mix if mix is None or mix.chains else replace(mix, chains=found.get(mix.name, {}))

    steps = tuple(replace(step, sass=filled(step.sass)) for step in record.steps)
    return replace(record, sass=filled(record.sass), steps=steps)


def chains_of(name: str) -> Chains:
    """Build the variants of a report, each machine code once."""
    kept = published.read_records(ROOT / "reports" / "h200" / name)
    experiment = experiment_of(kept.run, ROOT / "experiments" / Path(name).parent)
    records = {one.build.sass_sha256: one for one in kept.records if one.build is not None}
    tasks = [build_task(_planned(experiment, record)) for record in records.values()]
    built = [one for i in range(0, len(tasks), _TOGETHER) for one in build(tasks[i : i + _TOGETHER])]
    return {
        sass: {mix.name: mix.chains for mix in outcome.sass.values()}
        for sass, outcome in zip(records, built, strict=True)
        if isinstance(outcome, Built) and outcome.sass_sha256 == sass
    }


def main(names: Sequence[str]) -> None:
    """Read, and keep it."""
    for name in names:
        found = chains_of(name)
        write({**read(), **found})
        print(f"{name}: {len(found)} kernels", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
