"""The winners again: what does not repeat is no result."""

from __future__ import annotations

from dataclasses import replace

from lab.experiment.variants import Plan
from lab.gpu.process.cards import Cards
from lab.gpu.process.job import JobResult
from lab.measured.timing import Measurement
from lab.runs import flow
from lab.runs.flow import FlowContext
from lab.runs.recorder import Recorder
from lab.runs.search import leaders
from lab.templates.launches import BuiltLaunch


def repeat_winners(context: FlowContext, recorder: Recorder, cards: Cards, planned: Plan) -> None:
    """Measure the fastest variant of each problem again in a fresh process, which all of them share.

    Args:
        context: What is the same for all variants of the run.
        recorder: Its scores say which variants these are; the records are in its store.
        cards: The GPUs.
        planned: The variants of the run, by position.
    """
    experiment, store = context.experiment, recorder.store
    policy, fresh = flow.policy_of(experiment), True
    for winner in leaders(recorder.scores.values(), 1):
        if winner.rate is None:
            continue
        one = planned[winner.position]
        record = store.record(one.variant)
        if record.measurement is None or record.measurement.remeasured:
            continue  # an earlier, interrupted run came so far
        one = one.built(BuiltLaunch.of(record.build))
        job = flow.job_of(experiment, one, store.read_file(one.variant, "kernel.cubin"), context.reference)
        ran = cards.submit(job, policy, card=record.measurement.card, fresh=fresh).result()
        fresh = False
        store.write(replace(record, measurement=repeated(record.measurement, ran.result)), winner.position)


def repeated(first: Measurement, again: JobResult) -> Measurement:
    """Return a measurement with its repetition's samples, or with a note that says why there are none."""
    if again.measurement is None:
        reason = again.failure.reason if again.failure else "no measurement"
        note = f"measured once only: the repetition in a fresh process failed: {reason}"
        return replace(first, notes=(*first.notes, note))
    second = again.measurement
    change = second.samples.median / first.samples.median - 1
    note = f"in a fresh process: median {second.samples.median:.6g} ms ({change:+.1%})"
    if second.ratio_to_baseline is not None:
        note += f", {second.ratio_to_baseline:.3f} of {second.baseline_name}'s throughput there"
    notes = (*first.notes, note, *(f"in the fresh process: {text}" for text in second.notes))
    return replace(first, remeasured=second.samples, notes=notes)
