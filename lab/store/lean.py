"""The finished records of a run without what its own page alone needs."""

from __future__ import annotations

from lab.base.collecting import uncollected
from lab.predict.variant_scores import lean
from lab.recorded.run_records import VariantRecord
from lab.store.database import Store


def lean_records(store: Store) -> tuple[VariantRecord, ...]:
    """Every finished record of a run directory, in the experiment's order, each as `lean` returns it.

    Raises:
        StoreError: One cannot be read.
    """
    with uncollected():
        return tuple(map(lean, store.each()))
