"""Read registers by role of committed reports whose records lack them, and publish these again.

python benchmarks/roles_again.py reports/h200/hgemm_ladder reports/h200/hgemm_counters …

Records of schema 25 or older say that a kernel changes its warps' registers, but not to how many. The variants are
built here by the compiler that the records name, of today's templates; no GPU is needed. A variant whose machine code
is not the one that was measured keeps what its record has. Nothing else of a record changes.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import chain
from pathlib import Path

from estimate_again import _planned, experiment_of  # the modules beside this one
from publish import publish

from lab.base import environment, workers
from lab.base.version import VERSION
from lab.isa.mix import KernelMix
from lab.stages.build import BuildFailure, Built, build, build_task
from lab.store import published
from lab.store.database import Store
from lab.store.model import VariantRecord
from lab.store.roles import lacks_roles

_TOGETHER = 4
"""Variants that a worker builds at once."""


def with_built_roles(record: VariantRecord, outcome: Built | BuildFailure) -> VariantRecord:
    """The record with the roles in the listings of a build; as it is where that has other machine code."""
    built = record.build
    if isinstance(outcome, BuildFailure) or built is None or outcome.sass_sha256 != built.sass_sha256:
        return record

    def read(mix: KernelMix | None, found: Mapping[str, KernelMix]) -> KernelMix | None:
        return mix and replace(mix, roles=found.get(mix.name, mix).roles)

    steps = tuple(
        replace(step, ptx=read(step.ptx, outcome.ptx), sass=read(step.sass, outcome.sass)) for step in record.steps
    )
    return replace(record, ptx=read(record.ptx, outcome.ptx), sass=read(record.sass, outcome.sass), steps=steps)


def read_again(kept: published.PublishedRun, jobs: int, experiments: Path | None = None) -> dict[str, VariantRecord]:
    """The records that were completed, by variant.

    Args:
        kept: The committed run.
        jobs: Worker processes.
        experiments: As `estimate_again.experiment_of`'s folder.
    """
    experiment = experiment_of(kept.run, experiments)
    lacking = [record for record in kept.records if lacks_roles(record)]
    tasks = [build_task(_planned(experiment, record)) for record in lacking]
    with ProcessPoolExecutor(jobs) as pool:
        groups = [tasks[i : i + _TOGETHER] for i in range(0, len(tasks), _TOGETHER)]
        outcomes = chain.from_iterable(pool.map(build, groups))
        made = [with_built_roles(record, outcome) for record, outcome in zip(lacking, outcomes, strict=True)]
    return {record.variant: record for record in made if not lacks_roles(record)}


def publish_again(folder: Path, jobs: int, experiments: Path | None = None) -> str:
    """Publish a folder with the roles of its kernels; nothing happens where none are found. Arguments as above.

    Returns:
        What was found, in a sentence.
    """
    kept = published.read_records(folder)
    lacking = sum(map(lacks_roles, kept.records))
    found = read_again(kept, jobs, experiments)
    said = f"{len(found)} of {lacking} variants that change their registers"
    if found:
        by = ", ".join(filter(None, [f"lab {VERSION}", environment.commit()]))
        note = f"Registers by role were read by {by}, after the run, from {said}, built to the same machine code."
        with tempfile.TemporaryDirectory() as temporary:
            run = Path(temporary) / "run"
            published.restore(folder, run)
            with Store(run, create=True) as store:
                store.write_run(replace(kept.run, notes=(*kept.run.notes, note)))
                for position, record in enumerate(kept.records):
                    if record.variant in found:
                        store.write(found[record.variant], position)
            publish(run, folder)
    return f"{folder}: roles of {said}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Publish each folder again, and say what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", help="folders of committed results")
    parser.add_argument("--jobs", type=int, default=workers.cores(), help="builds at a time")
    given = parser.parse_args(arguments)
    for folder in given.folders:
        print(publish_again(folder, given.jobs), flush=True)


if __name__ == "__main__":
    main()
