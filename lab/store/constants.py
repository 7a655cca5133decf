"""Where the constants of estimates come from: a GPU that they were measured on, documents, or a calibration."""

from __future__ import annotations

from collections.abc import Iterable

from lab.hardware.calibration import known_gpu
from lab.hardware.latencies import NEVER_COMPARED
from lab.recorded.run_records import VariantRecord


def constants_of(record: VariantRecord) -> str:
    """Return where the constants of a variant's estimate come from, in words; empty where its GPU is not known."""
    gpu = known_gpu(record.prediction.gpu) if record.prediction else None
    return "" if gpu is None else gpu.constants


def never_compared(records: Iterable[VariantRecord]) -> str:
    """Return the sentence that marks predictions which no hardware was compared with; empty where there are none."""
    names = dict.fromkeys(one.prediction.gpu for one in records if one.prediction)
    gpus = [gpu for gpu in map(known_gpu, names) if gpu is not None and NEVER_COMPARED in gpu.constants]
    if not gpus:
        return ""
    return (
        f"Ceilings and estimates for the {' and '.join(dict.fromkeys(gpu.name for gpu in gpus))} stand on published "
        f"figures and were {NEVER_COMPARED}; `lab calibrate` measures the constants of a GPU that is there."
    )
