from __future__ import annotations

import csv
import json
import math

from written_runs import Make

from lab.store.record_files import csv_text, records_json


def test_cells_are_in_full_precision_and_empty_without_a_value() -> None:
    text = csv_text(["a", "b,c"], [[0.1 + 0.2, None], [True, 'say "x"'], [False, 0]])
    assert list(csv.reader(text.splitlines())) == [
        ["a", "b,c"], ["0.30000000000000004", ""], ["true", 'say "x"'], ["false", "0"],
    ]  # fmt: skip


def test_records_have_their_derived_figures(make: Make) -> None:
    with make("ladder") as store:
        run, texts = store.run(), list(store.texts())
    derived: list[dict[str, object]] = [{"rate": float(place)} for place in range(len(texts))]
    derived[0]["rate"] = math.inf
    value = json.loads(b"".join(p if isinstance(p, bytes) else p.encode() for p in records_json(run, texts, derived)))
    assert value["run"]["experiment"] == run.experiment
    own = [{name: cell for name, cell in record.items() if name != "derived"} for record in value["records"]]
    assert own == [json.loads(text) for text in texts]
    assert [record["derived"]["rate"] for record in value["records"]] == [None, *map(float, range(1, len(texts)))]
