"""The source of the estimates' constants: a measured GPU, documents, or a calibration."""

from __future__ import annotations

from collections.abc import Iterable

from lab.hardware.calibration import known_gpu
from lab.hardware.latencies import NEVER_COMPARED
from lab.recorded.run_records import VariantRecord


def constants_of(record: VariantRecord) -> str:
    """Return the source of the constants in a variant's estimate, in words; empty for an unknown GPU."""
    gpu = known_gpu(record.prediction.gpu) if record.prediction else None
    return "" if gpu is None else gpu.constants


def never_compared(records: Iterable[VariantRecord]) -> str:
    """Return a warning about predictions never compared with hardware; empty if there are none."""
    names = dict.fromkeys(record.prediction.gpu for record in records if record.prediction)
    gpus = [gpu for gpu in map(known_gpu, names) if gpu is not None and NEVER_COMPARED in gpu.constants]
    if not gpus:
        return ""
    return (
        f"Ceilings and estimates for the {' and '.join(dict.fromkeys(gpu.name for gpu in gpus))} stand on published "
        f"figures and were {NEVER_COMPARED}; `lab calibrate` measures the constants of a GPU that is there."
    )
