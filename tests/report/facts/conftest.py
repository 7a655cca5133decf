"""Runs whose times a test sets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.measured.timing import Samples


def timed(record, ms, scatter=0.0):
    samples = Samples((ms * (1 - scatter), ms, ms * (1 + scatter)))
    return replace(record, measurement=replace(record.measurement, samples=samples, remeasured=None))


@pytest.fixture
def grid(make):
    """Variants of two parameters, whose times a test sets: a function of both; scatter is that of the samples."""

    def made(times, scatter=0.0, kernel="k", what="sweep"):
        store = make(what)
        first = store.records()[0]
        records = tuple(
            timed(
                replace(first, variant=f"{u}-{p}", kernel=kernel, label=f"unroll={u} padding={p}",
                        parameters={"unroll": u, "padding": p}, merit=first.merit),
                times(u, p), scatter,
            )
            for u in (1, 4, 8) for p in (0, 4)
        )  # fmt: skip
        return replace(store.run(), swept=("unroll", "padding"), question="Does unrolling pay?"), records

    return made
