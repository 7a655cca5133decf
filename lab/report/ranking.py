"""A run as one JSON object: its header, the figure that ranks, and its variants, best first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from lab.recorded.run_records import RunRecord, VariantRecord
from lab.report.analysis import brief_answer
from lab.report.columns import row
from lab.report.registry.run_columns import columns_for
from lab.store import figures


def ranking(run: RunRecord, records: Sequence[VariantRecord]) -> dict[str, Any]:
    """Return a run as JSON values.

    Returns:
        `experiment`, `question`, `command`, `started`, `commit`, `not_measured` and `notes` of the run; `answer`, the
        sentences of `lab.report.analysis.brief_answer`; `statuses`, the number of variants by verdict; `figure`, the
        column that ranks with its title, unit, kind and the GPUs that it is measured on or predicted for; and
        `variants`, rows of the tables with a `rank` from 1, null for those that the figure does not rank, which come
        last.
    """
    every = tuple(records)
    response = figures.response_of(every)
    ranked = figures.ranked(every, response)
    places = {record.variant: place for place, record in enumerate(ranked, 1)}
    measured = response.basis is figures.Basis.MEASURED and run.gpu is not None
    gpus = [run.gpu.name] if measured and run.gpu is not None else _predicted_for(every)
    chosen = columns_for(run, every)
    ordered = [*ranked, *(record for record in every if record.variant not in places)]
    return {
        "experiment": run.experiment,
        "question": run.question,
        "answer": list(brief_answer(run, every)),
        "command": run.command,
        "started": run.started,
        "commit": run.commit,
        "not_measured": run.not_measured,
        "notes": list(run.notes),
        "statuses": {str(status): count for status, count in Counter(record.status for record in every).items()},
        "figure": {
            "column": response.column,
            "title": response.title,
            "unit": response.unit,
            "kind": str(response.kind),
            "gpus": gpus,
            "in_turns_with": response.in_turns,
        },
        "variants": [{"rank": places.get(record.variant), **row(record, chosen)} for record in ordered],
    }


def _predicted_for(records: Sequence[VariantRecord]) -> list[str]:
    return list(dict.fromkeys(record.prediction.gpu for record in records if record.prediction is not None))
