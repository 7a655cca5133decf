"""Where the constants of estimates come from: a GPU that they were measured on, documents, or a calibration."""

from __future__ import annotations

from collections.abc import Iterable

from lab.hardware.latencies import NEVER_COMPARED
from lab.store.model import VariantRecord
from lab.store.scores import target


def constants_of(record: VariantRecord) -> str:
    """Return where the constants of a variant's estimate come from, in words; empty where its GPU is not known."""
    gpu = target(record)
    return "" if gpu is None else gpu.constants


def never_compared(records: Iterable[VariantRecord]) -> str:
    """Return the sentence that marks predictions which no hardware was compared with; empty where there are none."""
    found = dict.fromkeys(gpu.name for one in records if (gpu := target(one)) is not None and _unproved(gpu.constants))
    if not found:
        return ""
    names = " and ".join(found)
    return (
        f"Ceilings and estimates for the {names} stand on published figures and were {NEVER_COMPARED}; "
        "`lab calibrate` measures the constants of a GPU that is there."
    )


def _unproved(constants: str) -> bool:
    return NEVER_COMPARED in constants
