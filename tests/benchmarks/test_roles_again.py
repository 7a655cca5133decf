"""`benchmarks/roles_again.py`: roles of a committed report are read again, and nothing else is touched."""

from __future__ import annotations

from dataclasses import replace

import pytest
from narrowing import known

from lab.runs import pipeline as running
from lab.store import published
from lab.store.roles import registers_by_role

EXPERIMENT = """\
question: Does it?
operator: gemm
problem: {m: 512, n: 512, k: 512, dtype: bfloat16, layout: tn}
kernels:
  - {template: hgemm/split_wgmma.cu.j2, parameters: {block_m: 64, block_n: 128, split_k: 2, stages: [2, 3]}}
toolchains: [nvrtc]
archs: [sm_90a]
"""


def older(record):
    return replace(record, ptx=replace(known(record.ptx), roles=()), sass=replace(known(record.sass), roles=()))


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Committed results without roles; the first variant was measured as other machine code."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "small.yaml").write_text(EXPERIMENT)
    made = running.run(folder / "small.yaml", running.RunOptions(output=folder / "run", measure=False, emulate=False))
    kept = published.PublishedRun(made.run, made.records)
    (folder / "published").mkdir()
    first, second = map(older, kept.records)
    first = replace(first, build=replace(first.build, sass_sha256="0"))
    published.write_records(replace(kept, records=(first, second)), folder / "published")
    return folder, kept


def test_roles_are_read_where_the_machine_code_is_the_one_that_was_measured(benchmark_script, report):
    folder, kept = report
    script = benchmark_script("roles_again")
    assert registers_by_role(published.read_records(folder / "published").records[1]) is None
    said = script.publish_again(folder / "published", 1, folder)
    assert said.endswith("roles of 1 of 2 variants that change their registers")
    now = published.read_records(folder / "published")
    other, same = now.records
    assert same == kept.records[1]
    assert registers_by_role(same) == "producer 40, consumer 232"
    assert other == replace(older(kept.records[0]), build=replace(kept.records[0].build, sass_sha256="0"))
    assert now.run == replace(kept.run, notes=now.run.notes)
    assert now.run.notes[:-1] == kept.run.notes
    assert "1 of 2 variants" in now.run.notes[-1]
    assert "Registers by role were read" in (folder / "published" / "index.html").read_text()
    before = (folder / "published" / published.RECORDS).read_bytes()
    script.publish_again(folder / "published", 1, folder)  # what is left is other code, as before
    assert (folder / "published" / published.RECORDS).read_bytes() == before
