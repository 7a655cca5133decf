"""What a run keeps beside its records: each variant's files, and the conditions that its records depend on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from lab.base import environment
from lab.base.errors import ReaderError
from lab.base.version import VERSION
from lab.experiment.load import Experiment
from lab.experiment.variants import Planned
from lab.gpu.process.job import JobResult
from lab.isa.mix import module_mix, to_json
from lab.isa.ptx.module import read_ptx
from lab.measured.timing import GpuDescription
from lab.stages.build import BuildFailure, Built
from lab.store.database import PROVENANCE
from lab.store.model import VariantRecord


def files_of(planned: Planned, outcome: Built | BuildFailure, record: VariantRecord) -> Mapping[str, str | bytes]:
    """The files of a variant's folder by name; `provenance.json` comes last."""
    provenance: dict[str, object] = {
        "variant": planned.variant,
        "kernel": record.kernel,
        "template": record.template,
        "parameters": record.parameters,
        "arch": record.arch,
        "options": planned.request.options,
        **({"included": dict(planned.request.included)} if planned.request.included else {}),
        "entries": planned.launches.entries,
        "lab": VERSION,
        "commit": environment.commit(),
        "python": environment.python(),
        "packages": environment.packages(),
    }
    if isinstance(outcome, BuildFailure):
        texts: dict[str, str | bytes] = {"build.log": outcome.log or outcome.reason}
        provenance |= {"command": outcome.command, "failure": outcome.reason}
    else:
        made = outcome.build
        texts = {
            "kernel.ptx": made.ptx,
            "kernel.sass": outcome.disassembly.text,
            "kernel.cubin": made.cubin,
            "build.log": made.log,
        }
        provenance |= {
            "toolchain": made.toolchain,
            "version": made.version,
            "command": made.command,
            "disassembler": outcome.disassembly.version,
            "sass_sha256": outcome.sass_sha256,
            "cached": outcome.cached,
        }
    files: dict[str, str | bytes] = {"kernel.cu": planned.request.source, **texts}
    provenance["sizes"] = {name: len(c if isinstance(c, bytes) else c.encode()) for name, c in files.items()}
    return {**files, PROVENANCE: json.dumps(provenance, indent=1) + "\n"}


def baseline_files(result: JobResult) -> Mapping[str, str | bytes]:
    """PTX and instruction mix of the baselines whose PTX is known, by file name."""
    files: dict[str, str | bytes] = {}
    for found in (result.baseline, *result.others):
        if found is not None and found.ptx:
            files[f"{found.name}.ptx"] = found.ptx
            with suppress(ReaderError):
                mix = to_json(found.library, "ptx", module_mix(read_ptx(found.ptx, f"{found.name}.ptx")))
                files[f"{found.name}.json"] = json.dumps(mix, indent=1) + "\n"
    return files


def conditions_of(
    experiment: Experiment, gpu: GpuDescription | None, *, emulated: bool, measured: bool
) -> dict[str, object]:
    """What decides a record besides its variant's id.

    A resumed run keeps the records that were made under equal conditions. The choice of profiled variants is no
    condition: a profile is added to an existing record and changes nothing else.
    """
    source = experiment.operator_reference.rpartition(":")[0]
    return {
        "operator": experiment.operator_reference,
        "operator file": hashlib.sha256(Path(source).read_bytes()).hexdigest() if source else "",
        "baselines": list(experiment.baselines),
        "seed": experiment.seed,
        "cache": experiment.cache,
        "emulate": [dict(p.emulate) if p.emulate else None for p in experiment.problems] if emulated else None,
        "number of emulations": experiment.emulate_at_most if emulated else None,
        "GPU": f"{gpu.name}, driver {gpu.driver}" if gpu and measured else None,
        "GPU of the predictions": experiment.gpu,
        "search": experiment.text if experiment.search else None,
        "lab": VERSION,
        "commit": environment.commit(),
    }
