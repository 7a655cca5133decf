"""Problem by problem: a sentence each where there are few, else a summary and a table that holds all of them."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from itertools import product

import pytest

from lab.measured.timing import Samples
from lab.recorded.run_records import Status
from lab.report.facts.answer import answer
from lab.report.facts.winners import MOST_SENTENCES, table
from lab.report.registry.run_columns import columns_for
from lab.report.render import render
from lab.store.figures import response_of

HOSTILE = "<b>n</b>"


@pytest.fixture
def problems(make):
    """So many problems of two kernels; the first is twice as fast as the second, and slower than cublas once."""

    def made(count, what="sweep", names=None):
        store = make(what)
        first = store.records()[0]
        records = []
        for i, (kernel, slower) in product(range(count), (("fast", 1), ("slow", 2))):
            problem = {**first.problem, "n": 256 * (i + 1)} | ({"name": names[i]} if names else {})
            variant = replace(first, variant=f"{kernel}{i}", kernel=kernel, label=f"n={256 * (i + 1)}", problem=problem)
            if first.measurement:
                timed = replace(
                    first.measurement,
                    samples=Samples((slower * (1.0 + i), slower * (1.0 + i), slower * (1.2 + i))),
                    baseline=Samples((((1.0 + 0.1 * i) if i else 0.5) * (1.0 + i),)),
                    others={"triton": Samples((2.0 * (1.0 + i),))} if i else {},
                    remeasured=Samples((1.1 * (1.0 + i),)) if kernel == "fast" else None,
                )
                variant = replace(variant, measurement=timed)
            records.append(variant)
        store.clear()
        store.write_run(replace(store.run(), problem_axes=("name",) if names else ("n",), variants=len(records)))
        for position, record in enumerate(records):
            store.write(record, position)
        return store

    return made


def opening(store):
    records = store.records()
    return answer(store.run(), records, response_of(records)).sentences


def table_of(store):
    run, records = store.run(), store.records()
    return table(run, records, columns_for(run, records), response_of(records))


def body(page):
    """Cells of the table of problems, row by row, as text."""
    section = re.search(r'<section id="problems">.*?</section>', page, re.DOTALL)[0]
    rows = re.findall(r"<tr>(.*?)</tr>", section.partition("<tbody>")[2], re.DOTALL)
    return [[unescape(re.sub(r"<[^>]+>", "", cell)) for cell in re.findall(r"<t[hd].*?</t[hd]>", row)] for row in rows]


def test_few_problems_have_a_sentence_each_and_no_table(problems):
    store = problems(MOST_SENTENCES)
    lines, rate = opening(store), store.records()[0].throughput
    assert lines[1] == f"n=256: fast with {rate:.2f} TFLOP/s, 0.500 times cublas; {rate / 1.1:.2f} in a fresh process."
    assert sum(sentence.startswith("n=") for sentence in lines) == MOST_SENTENCES
    assert table_of(store) is None
    render(store)
    assert 'id="problems"' not in (store.folder / "index.html").read_text()


def test_many_problems_have_a_summary(problems):
    store = problems(6)
    lines, rate = opening(store), store.records()[0].throughput
    assert not any(sentence.startswith("n=") for sentence in lines)
    middle = rate * (1 / 3 + 1 / 4) / 2
    assert lines[0] == (
        f"The best variants of 6 problems reach {rate / 6:.2f} (n=1536) to {rate:.2f} (n=256) TFLOP/s, "
        f"median {middle:.2f}."
    )
    assert lines[1] == (
        "Compared with cublas they reach 0.500 (n=256) to 1.500 (n=1536) times its throughput, median 1.250: "
        "faster in 5 problems, slower in 1 (n=256)."
    )
    assert lines[2] == (
        "Compared with triton, which was timed in 5 of them, they reach 2.000 times its throughput: faster in all."
    )
    nine = "9.1\N{NO-BREAK SPACE}%"  # 1 / 1.1 less 1
    assert lines[3] == f"Measured again in fresh processes, their throughput differs by up to {nine}, median {nine}."
    assert "Winning kernels" not in " ".join(lines)  # one kernel wins everywhere


def test_the_rarer_side_and_the_kernels_are_named(problems):
    store = problems(6)
    for position, record in enumerate(store.records()):
        i = position // 2
        swapped = {"fast": "slow", "slow": "fast"}[record.kernel] if i >= 4 else record.kernel
        baseline = Samples(((1.0 + i) * (2.0 if i == 5 else 1.0 if i == 4 else 0.5),))
        timed = replace(record.measurement, baseline=baseline, others={})
        store.write(replace(record, kernel=swapped, measurement=timed), position)
    lines = opening(store)
    assert lines[1].endswith("slower in 4 problems, faster in 1 (n=1536), equal in 1.")
    assert "Winning kernels: fast in 4; slow in 2." in lines


def test_the_table_holds_the_winner_of_each_problem(problems):
    store = problems(20)
    failed = store.records()[0]  # the fastest of the first problem computes something else
    store.write(replace(failed, status=Status.WRONG), 0)
    winner_table = table_of(store)
    names = [column.name for column in winner_table.columns]
    assert names == [
        *("measured_tflops", "measured_spread", "remeasured_tflops", "ratio_to_baseline", "ratio_to_triton"),
        "predicted_bound",
    ]
    assert [column.title for column in winner_table.columns][3:5] == ["ratio to cublas", "ratio to triton"]
    assert (winner_table.problems, len(winner_table.rows)) == (20, 20)
    assert [row.name for row in winner_table.rows] == ["slow"] + ["fast"] * 19
    render(store)
    rows = body((store.folder / "index.html").read_text())
    assert len(rows) == 20
    second = store.records()[2]
    assert rows[1] == [
        *("n=512", "fast", f"{second.throughput:.2f}", "6.0\N{NO-BREAK SPACE}%", f"{second.throughput / 1.1:.2f}"),
        *("1.100", "2.000", second.prediction.ceiling.name),
    ]
    assert rows[0][4] == rows[0][6] == ""  # not measured again; triton was not timed there


def test_without_a_gpu_the_table_has_ceilings_and_says_who_shares_them(problems):
    winner_table = table_of(problems(5, "no_gpu"))
    assert [column.name for column in winner_table.columns] == ["predicted_tflops", "predicted_bound"]
    assert {row.name for row in winner_table.rows} == {"2 of 2 variants"}


def test_one_ceiling_for_all_has_no_winners(problems):
    lines = opening(problems(5, "no_gpu"))
    assert lines[0].startswith("The best variants of 5 problems have predicted ceilings of ")
    assert "median" not in lines[0]


def test_names_are_text(problems):
    names = [f"{HOSTILE}{i}</table>" for i in range(5)]
    store = problems(5, names=names)
    for position, record in enumerate(store.records()):
        timed = replace(record.measurement, baseline_name=HOSTILE)
        store.write(replace(record, kernel=HOSTILE, label=f"{names[position // 2]} k=<i>", measurement=timed), position)
    render(store)
    page = (store.folder / "index.html").read_text()
    assert HOSTILE not in page
    rows = body(page)
    assert [cells[0] for cells in rows] == names
    assert {cells[1] for cells in rows} == {f"{HOSTILE} k=<i>"}
    assert f"ratio to {HOSTILE}" in unescape(page)
