"""Files a run keeps besides its records: each variant's files, and the conditions its records depend on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from lab.base import environment
from lab.base.errors import ReaderError
from lab.base.version import VERSION
from lab.experiment.identity import fields_of, plain
from lab.experiment.model import Experiment
from lab.experiment.variants import Planned
from lab.gpu.process.job import JobResult
from lab.hardware.calibration import in_use, text_of
from lab.isa.mix import module_mix, to_json
from lab.isa.ptx.module import read_ptx
from lab.measured.timing import GpuDescription
from lab.recorded.run_records import VariantRecord
from lab.stages.build import BuildFailure, Built
from lab.store.database import PROVENANCE
from lab.templates.plain.template import PlainTemplate
from lab.toolchain.disassembly.nvdisasm import disassembler_version


def files_of(planned: Planned, outcome: Built | BuildFailure, record: VariantRecord) -> Mapping[str, str | bytes]:
    """Return the files of a variant's folder by name; `provenance.json` comes last."""
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
        compiled = outcome.build
        texts = {
            "kernel.ptx": compiled.ptx,
            **({} if outcome.disassembly.lacking else {"kernel.sass": outcome.disassembly.text}),
            "kernel.cubin": compiled.cubin,
            "build.log": compiled.log,
        }
        provenance |= {
            "toolchain": compiled.toolchain,
            "version": compiled.version,
            "command": compiled.command,
            "disassembler": outcome.disassembly.version,
            "sass_sha256": outcome.sass_sha256,
            "cached": outcome.cached,
        }
    template = planned.instance.template
    # line tables refer to the lines of the user's file; its macros are the parameters
    source_text = template.text if isinstance(template, PlainTemplate) and template.text else planned.request.source
    source = source_text.encode("utf-8", "backslashreplace")  # the source may be invalid text, as its build.log reports
    files: dict[str, str | bytes] = {"kernel.cu": source, **texts}
    provenance["sizes"] = {name: len(c if isinstance(c, bytes) else c.encode()) for name, c in files.items()}
    return {**files, PROVENANCE: json.dumps(provenance, indent=1) + "\n"}


def baseline_files(result: JobResult) -> Mapping[str, str | bytes]:
    """Return PTX and instruction mix of the baselines with known PTX, by file name."""
    files: dict[str, str | bytes] = {}
    for baseline in (result.baseline, *result.others):
        if baseline is not None and baseline.ptx:
            files[f"{baseline.name}.ptx"] = baseline.ptx
            with suppress(ReaderError):
                mix = to_json(baseline.library, "ptx", module_mix(read_ptx(baseline.ptx, f"{baseline.name}.ptx")))
                files[f"{baseline.name}.json"] = json.dumps(mix, indent=1) + "\n"
    return files


NO_CONDITION: Mapping[str, str] = {
    "name": "it names the run directory and decides no record",
    "file": "where the text was found",
    "text": "its meaning is in the other fields; a search adds it below",
    "question": "prose",
    "operator": "it counts by its name and, where it is the user's own, by its file",
    "problems": "each variant's fingerprint has its own",
    "problem_axes": "they make labels",
    "kernels": "each variant's fingerprint has its own",
    "toolchains": "each variant's fingerprint has its own",
    "archs": "each variant's fingerprint has its own",
    "options": "each variant's fingerprint has its own",
    "baseline": "the report compares with it, and no record depends on it",
    "baseline_rules": "they become the baseline",
    "search": "its text counts, below",
    "profile": "a profile is added to an existing record and changes nothing else",
    "emulate_at_most": "it counts where variants are executed on the CPU, below",
}
"""Fields of an experiment that are not a condition of a run under their own names, each with the reason."""


def conditions_of(
    experiment: Experiment,
    gpu: GpuDescription | None,
    *,
    emulated: bool,
    measured: bool,
    variants: Sequence[str] = (),
) -> dict[str, object]:
    """Return the conditions of all variants' records; `lab.experiment.identity` has those of single variants.

    A resumed run keeps records made under equal conditions. Every field of the experiment is a condition, except those
    in `NO_CONDITION`.

    Args:
        experiment: The experiment.
        gpu: The GPU that measures, or None.
        emulated: Variants are executed on the CPU.
        measured: Variants are measured.
        variants: Ids of all variants; they count if only some are executed on the CPU.
    """
    source, emulation_limit = experiment.operator_reference.rpartition(":")[0], experiment.emulate_at_most
    source = source if source.endswith(".py") else ""
    own_fields = {
        _TITLES.get(name, name): plain(getattr(experiment, name))
        for name in fields_of(Experiment)
        if name not in NO_CONDITION
    }
    return {
        **own_fields,
        "operator file": hashlib.sha256(Path(source).read_bytes()).hexdigest() if source else "",
        "execution on the CPU": emulated,
        "number of emulations": [emulation_limit, *variants] if emulated and emulation_limit is not None else None,
        "GPU": f"{gpu.name}, driver {gpu.driver}" if gpu and measured else None,
        "search": experiment.text if experiment.search else None,
        "known times": _known_times(experiment),
        "calibrations": _calibrations(),
        "lab": VERSION,
        "commit": environment.commit(),
        "Python": environment.python(),
        "packages": environment.packages(),
        "disassembler": disassembler_version(),
    }


def _calibrations() -> str | None:
    """Return the hash of the calibrations used by estimates; None without any."""
    calibrations = in_use()
    return hashlib.sha256(text_of(calibrations).encode()).hexdigest() if calibrations else None


def _known_times(experiment: Experiment) -> str | None:
    """Return the hash of the file from which a search takes times; None without one."""
    name = experiment.search.known if experiment.search else None
    file = experiment.file.parent / name if name is not None else None
    return hashlib.sha256(file.read_bytes()).hexdigest() if file is not None and file.is_file() else None


_TITLES = {"operator_reference": "operator", "gpu": "GPU of the predictions"}
"""Display names of conditions, if the field's name is unclear."""
