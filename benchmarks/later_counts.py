"""Counts and dependency chains of committed records, read after the runs: counts.json.xz and chains.json.xz.

They are not part of reports/, whose pages show the estimates of the records as they were measured.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from lab.isa.mix import KernelMix, WarpChain
from lab.recorded.run_records import EmulationRecord, VariantRecord

_HERE = Path(__file__).parent
_EXECUTION = TypeAdapter(EmulationRecord)


def complete(record: VariantRecord, report: str) -> VariantRecord:
    """Return a record with its later counts and with the chains that it lacks.

    Args:
        record: As it was committed.
        report: Its folder below reports/h200.
    """
    counts = _read("counts").get(report, {}).get(record.variant)
    if counts is not None:
        record = replace(record, emulation=_EXECUTION.validate_python(counts))
    chains = _read("chains").get(record.build.sass_sha256) if record.build is not None else None
    if chains is None:
        return record

    def filled(mix: KernelMix | None) -> KernelMix | None:
        if mix is None or mix.chains:
            return mix
        return replace(mix, chains={label: WarpChain(*row) for label, row in chains.get(mix.name, {}).items()})

    steps = tuple(replace(step, sass=filled(step.sass)) for step in record.steps)
    return replace(record, sass=filled(record.sass), steps=steps)


@cache
def _read(name: str) -> Mapping[str, Mapping[str, Any]]:
    """Return a file's content: counts by report and variant, chains by hash of the SASS, kernel and loop."""
    content: dict[str, dict[str, Any]] = json.loads(lzma.decompress((_HERE / f"{name}.json.xz").read_bytes()))
    return content
