"""Committed results: what is written is read again, whole; damage and strangers' files are refused."""

from __future__ import annotations

import io
import lzma
import tarfile
from pathlib import Path

import pytest
from planted_tuning import GPU, facts

from lab.base.errors import StoreError
from lab.measured.timing import Kind, Samples
from lab.recorded.run_records import RepeatRecord
from lab.store import published
from lab.store.database import Store
from lab.store.published import PublishedRun
from lab.store.store_schema import SCHEMA
from lab.store.tuning import TuningStore
from lab.store.tuning_model import Cut, CutKind, KernelFacts, ProtocolStep, Timed, TimingStage

REPEAT = RepeatRecord("2026-11-21T05:00:00+00:00", "", 24, 0, 24, 24, (), {"a": 0.01}, 0, 1, 1, 0.99)


@pytest.fixture
def results(make, tmp_path: Path) -> Path:
    """Committed results of a run of 24 variants, with the listings of two."""
    folder = tmp_path / "results"
    folder.mkdir()
    with make("sweep") as store:
        records = store.records()
        published.write_records(PublishedRun(store.run(), records, REPEAT, ("Lines are missing.",)), folder)
        texts = {one.variant: {"kernel.cu": f"// {one.label}\r\n", "kernel.ptx": "\n\nret;"} for one in records[:2]}
        published.write_listings(texts, folder)
    return folder


def test_records_come_back_as_they_were(results, make):
    found = published.read_records(results)
    with make("sweep") as store:
        assert found == PublishedRun(store.run(), store.records(), REPEAT, ("Lines are missing.",))


def test_the_same_records_give_the_same_bytes(results, make, tmp_path):
    published.write_records(published.read_records(results), tmp_path)
    assert (tmp_path / published.RECORDS).read_bytes() == (results / published.RECORDS).read_bytes()


def test_a_run_directory_is_made_again(results, tmp_path):
    published.restore(results, tmp_path / "deep" / "run")
    with Store(tmp_path / "deep" / "run") as store:
        found = published.read_records(results)
        assert (store.run(), store.records(), store.repeat()) == (found.run, found.records, REPEAT)
        assert store.noted(published.LEFT_OUT) == ["Lines are missing."]
        first, _, third = (record.variant for record in found.records[:3])
        assert store.read_file(first, "kernel.cu") == f"// {found.records[0].label}\r\n".encode()
        assert not store.variant_folder(third).path.exists()


def test_what_an_earlier_restoration_left_is_replaced(results, make, tmp_path):
    with make("ladder") as store:
        folder = store.folder
    published.restore(results, folder)
    with Store(folder) as store:
        assert store.run().experiment == "gemm_unroll"
        assert store.count() == 24


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "cannot be read"),
        (b"\xfd7zXZ\x00 and then something else", "cannot be read"),
        (published.compressed("{"), "cannot be read"),
        (published.compressed("[]"), "cannot be read"),
        (published.compressed('{"schema": 3}'), rf"another version of lab: schema 3, this reads {SCHEMA}$"),
        (published.compressed(f'{{"schema": {SCHEMA}, "run": {{}}, "records": []}}'), "cannot be read: "),
        (published.compressed(b'\xff{"schema": 9}'), "cannot be read"),
    ],
)
def test_damaged_records_are_refused(results, content, message):
    (results / published.RECORDS).write_bytes(content)
    with pytest.raises(StoreError, match=message):
        published.read_records(results)


def test_a_folder_of_something_else_is_refused(tmp_path):
    assert not published.is_published(tmp_path)
    with pytest.raises(StoreError, match=r"neither records\.json\.xz nor tuning\.json\.xz"):
        published.restore(tmp_path, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_target_that_cannot_be_made_is_an_error(results, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be made"):
        published.restore(results, tmp_path / "file" / "run")


def test_without_texts_there_is_no_archive(results):
    assert published.read_listings(results)
    assert published.write_listings({}, results) == 0
    assert published.read_listings(results) == {}


def test_an_archive_cannot_write_outside_of_the_run_directory(results, tmp_path):
    """Its members are read by name, and only those that a variant's folder holds."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name in ("../../escaped/kernel.cu", "/etc/kernel.cu", "kernel.cu", "a/kernel.cubin", "a/b/kernel.cu"):
            member = tarfile.TarInfo(name)
            member.size = 4
            tar.addfile(member, io.BytesIO(b"text"))
    (results / published.LISTINGS).write_bytes(lzma.compress(stream.getvalue()))
    before = set(tmp_path.rglob("kernel.*"))
    published.restore(results, tmp_path / "run")
    assert set(tmp_path.rglob("kernel.*")) == before


def test_a_cut_archive_is_refused(results):
    content = (results / published.LISTINGS).read_bytes()
    (results / published.LISTINGS).write_bytes(content[: len(content) // 2])
    with pytest.raises(StoreError, match="cannot be read"):
        published.read_listings(results)


KERNELS = (
    KernelFacts("k1", "MT8", "group", "float32_nn", "gemm/tensile.cu.j2", {"vector": True, "width": 4}, "sm_90"),
    KernelFacts("k2", "MT8", "group", "float32_tn", "gemm/tensile.cu.j2", {}, "sm_90", failure="no registers"),
)
TIMES = {
    "k1": Timed(Samples((0.1234567, 0.5), 4, (1,)), Kind.MEASURED, "warm", 1.25e-7),
    "k2": Timed(None, Kind.MEASURED, failure='hung, or "lost"'),
    "cublas float32_nn": Timed(Samples((2.0,)), Kind.PREDICTED),
}


@pytest.fixture
def tuned(tmp_path: Path) -> Path:
    """Committed results of a tuning run."""
    folder = tmp_path / "tuned"
    folder.mkdir()
    (tmp_path / "run").mkdir()
    with TuningStore(tmp_path / "run", create=True) as store:
        store.write_facts(facts(GPU))
        store.write_kernels(KERNELS)
        store.write_times(TimingStage.FINAL, (8, 16, 32), TIMES)
        store.write_times(TimingStage.HELD_OUT, (8, 16, 33), {"k1": TIMES["k1"]})
        store.write_steps(
            {"float32_nn": [ProtocolStep("group", 1, "Title", "Text.", ((8, 8, 8),))]}, {"float32_nn": []}
        )
        published.write_tuning(store, folder)
    return folder


def test_a_tuning_run_comes_back_with_samples_of_five_digits(tuned, tmp_path):
    published.restore(tuned, tmp_path / "again")
    with TuningStore(tmp_path / "again") as store:
        assert store.facts() == facts(GPU)
        assert store.kernels() == KERNELS
        steps, cuts = store.steps()
        assert [step.title for step in steps["float32_nn"]] == ["Title"]
        assert not cuts["float32_nn"]
        found = store.times(TimingStage.FINAL)
        assert found["k1"][8, 16, 32] == Timed(Samples((0.12346, 0.5), 4, (1,)), Kind.MEASURED, "warm", 1.2e-7)
        assert found["k2"][8, 16, 32] == TIMES["k2"]
        assert found["cublas float32_nn"][8, 16, 32] == TIMES["cublas float32_nn"]
        assert set(store.times(TimingStage.HELD_OUT)) == {"k1"}


@pytest.mark.parametrize(
    "content",
    [
        "stage,type\nfinal,x\n",
        "stage,type,kernel,m,n,k,kind,cache,error,failure,batch,unused,samples_ms\nfinal,x\n",
        "stage,type,kernel,m,n,k,kind,cache,error,failure,batch,unused,samples_ms\nlast,,k1,8,8,8,measured,,,,1,,0.5\n",
    ],
)
def test_damaged_times_are_refused(tuned, tmp_path, content):
    (tuned / published.TIMES).write_bytes(published.compressed(content))
    with pytest.raises(StoreError, match="cannot be read"):
        published.restore(tuned, tmp_path / "again")


def test_cuts_of_a_tuning_run_are_kept(tmp_path):
    (tmp_path / "run").mkdir()
    with TuningStore(tmp_path / "run", create=True) as store:
        store.write_facts(facts(None))
        store.write_steps({}, {"float32_nn": [Cut(CutKind.NEIGHBOURS, 7, 0.2, nearest=4, coarse=9, sizes=30)]})
        kept = store.steps()
        published.write_tuning(store, tmp_path)
    published.restore(tmp_path, tmp_path / "again")
    with TuningStore(tmp_path / "again") as store:
        assert store.steps() == kept


def test_times_of_batches_come_back_beside_those_of_products(tmp_path):
    (tmp_path / "run").mkdir()
    timed = Timed(Samples((0.5,), 4), Kind.MEASURED, "warm")
    with TuningStore(tmp_path / "run", create=True) as store:
        store.write_facts(facts(None))
        store.write_kernels(KERNELS)
        for size in ((8, 16, 32), (8, 16, 32, 5)):
            store.write_times(TimingStage.FINAL, size, {"k1": timed})
        published.write_tuning(store, tmp_path)
    published.restore(tmp_path, tmp_path / "again")
    with TuningStore(tmp_path / "again") as store:
        assert store.times(TimingStage.FINAL) == {"k1": {(8, 16, 32): timed, (8, 16, 32, 5): timed}}
