"""Execute the kernels of committed reports on the CPU again, for counts that their records lack, and keep them here.

python benchmarks/count_again.py plain/spmv others/gather …

builds the variants with the compiler that the records name, executes them on the CPU, and keeps what was counted in
benchmarks/counts.json.xz. benchmarks/score_agreement.py takes the counts from there. No GPU is needed. A variant whose
machine code is not the one that was measured is left out.
"""

from __future__ import annotations

import json
import lzma
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from estimate_again import _planned, experiment_of  # the module beside this one
from pydantic import TypeAdapter

from lab.runs import flow
from lab.runs.flow import FlowContext
from lab.stages.build import Built, build, build_task
from lab.stages.emulate import emulate
from lab.store import published
from lab.store.model import EmulationRecord, VariantRecord
from lab.store.scores import lean

ROOT = Path(__file__).parents[1]
KEPT = Path(__file__).parent / "counts.json.xz"
_TOGETHER = 8
_EXECUTION = TypeAdapter(EmulationRecord)


@lru_cache
def _kept() -> Mapping[str, Mapping[str, Any]]:
    return json.loads(lzma.decompress(KEPT.read_bytes())) if KEPT.exists() else {}


def read(name: str) -> Mapping[str, EmulationRecord]:
    """What was counted of a report, by variant; empty where nothing was."""
    return {variant: _EXECUTION.validate_python(one) for variant, one in _kept().get(name, {}).items()}


def write(name: str, found: Mapping[str, EmulationRecord]) -> None:
    """Keep what was counted of a report."""
    made = {variant: _EXECUTION.dump_python(one, mode="json", exclude_defaults=True) for variant, one in found.items()}
    kept = dict(sorted({**_kept(), name: made}.items()))
    _kept.cache_clear()
    KEPT.write_bytes(lzma.compress(json.dumps(kept, separators=(",", ":")).encode(), preset=9 | lzma.PRESET_EXTREME))


def with_counts(record: VariantRecord, counts: Mapping[str, EmulationRecord]) -> VariantRecord:
    """The record with what was counted later."""
    return replace(record, emulation=counts.get(record.variant, record.emulation))


def counted(name: str) -> Mapping[str, EmulationRecord]:
    """Build and execute the variants of a report."""
    kept = published.read_records(ROOT / "reports" / "h200" / name)
    experiment = experiment_of(kept.run, ROOT / "experiments" / Path(name).parent)
    records = [one for one in kept.records if one.build is not None and one.emulation is not None]
    planned = [_planned(experiment, record) for record in records]
    tasks = [build_task(one) for one in planned]
    built = [one for i in range(0, len(tasks), _TOGETHER) for one in build(tasks[i : i + _TOGETHER])]
    context = FlowContext(experiment, kept.run.gpu, emulate=True)
    found: dict[str, EmulationRecord] = {}
    for record, plan, outcome in zip(records, planned, built, strict=True):
        if isinstance(outcome, Built) and record.build and outcome.sass_sha256 == record.build.sass_sha256:
            task = flow.emulation_task(context, flow.inspect(context, plan, outcome, None))
            done = lean(replace(record, emulation=emulate(task, outcome.build.ptx))).emulation
            assert done is not None  # noqa: S101 - it was just made
            found[record.variant] = done
    return found


def main(names: Sequence[str]) -> None:
    """Count, and keep it."""
    for name in names:
        found = counted(name)
        write(name, found)
        print(f"{name}: {len(found)} variants", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
