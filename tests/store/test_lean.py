from __future__ import annotations

from written_runs import Make

from lab.predict.variant_scores import lean
from lab.store.lean import lean_records


def test_each_record_is_read_in_order_without_its_lines(make: Make) -> None:
    with make("ladder") as store:
        assert lean_records(store) == tuple(map(lean, store.records())) != ()
