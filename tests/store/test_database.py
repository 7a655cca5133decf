from __future__ import annotations

import dataclasses
import json
import sqlite3

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from narrowing import known

from lab.base.errors import StoreError
from lab.isa.mix import Counts, KernelMix, LoopMix
from lab.measured.counters import LaunchCounters, Profile
from lab.measured.timing import CardState, Measurement, Samples, Verification
from lab.recorded.predictions import Bound, Prediction
from lab.recorded.run_records import BuildRecord, LaunchRecord, RepeatRecord, RunRecord, Status, VariantRecord
from lab.store.codec import record_to_json
from lab.store.database import Store
from lab.toolchain.base import Resources

COUNTS = Counts(10, {"fma": 4, "ld.shared": 2}, {"FFMA": 4}, 32, 0)
LOOP = LoopMix(".L_1", 1, None, True, COUNTS, 3, 9, ((3, 5), (7, 9)), 40)
RECORD = VariantRecord(
    variant="0123456789",
    kernel="tiled",
    label="unroll=1",
    template="gemm/tiled.cu.j2",
    parameters={"unroll": 1, "double_buffer": True, "x": 1.5, "word": "a"},
    problem={"m": 4},
    arch="sm_90",
    status=Status.VERIFIED,
    reason="",
    flops=100,
    bytes_moved=10,
    launch=LaunchRecord((1, 2, 3), (32, 1, 1), 0),
    build=BuildRecord("nvrtc", "13.5", "nvrtc k.cu", Resources(32, 0, 0, 0, 0, 0, 1), "ab", 0.1, False, "13.5"),
    ptx=KernelMix("ptx", "k", COUNTS, (LOOP,), None),
    sass=KernelMix("sass", "k", COUNTS, (LOOP,), 40),
    prediction=Prediction("H200", 0.5, 2, "registers", 66.9, (Bound("roofline", 60.0, "why"),)),
    verification=Verification(True, 1e-9, 1e-6, "", "H200"),
    measurement=Measurement(Samples((1.0, 2.0, 3.0)), Samples((4.0,)), "cublas", "cold", CardState(), CardState(1980)),
)
RUN = RunRecord(
    experiment="e",
    question="q",
    operator="gemm",
    problem={"m": 4},
    source="",
    command="",
    started="",
    lab_version="0",
    commit="",
    python="",
    packages={},
    gpu=None,
    not_measured="",
    baselines={},
    swept=("unroll",),
    variants=1,
)


def test_records_come_back_as_they_were_in_the_experiments_order(tmp_path):
    second = dataclasses.replace(RECORD, variant="b")
    with Store(tmp_path / "run", create=True) as store:
        store.write_run(RUN)
        store.write(second, 1)
        store.write(RECORD, 0)
        store.write(dataclasses.replace(second, reason="again"), 1)
    with Store(tmp_path / "run") as store:
        assert store.run() == RUN
        assert store.records() == (RECORD, dataclasses.replace(second, reason="again"))
    types = {k: type(v) for k, v in store_parameters(tmp_path).items()}
    assert types == {"unroll": int, "double_buffer": bool, "x": float, "word": str}


def store_parameters(tmp_path):
    with Store(tmp_path / "run") as store:
        return store.records()[0].parameters


def test_throughput_is_the_medians():
    assert RECORD.tflops == 100 / 2.0 / 1e9
    assert RECORD.measurement.ratio_to_baseline == 2.0
    assert dataclasses.replace(RECORD, measurement=None).tflops is None


def test_json_is_plain():
    value = record_to_json(RECORD)
    assert value["status"] == "verified"
    assert value["parameters"]["double_buffer"] is True
    assert value["measurement"]["samples"]["ms"] == [1.0, 2.0, 3.0]


@given(st.lists(st.floats(min_value=1e-6, max_value=1e6), min_size=1, max_size=20))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
def test_raw_samples_survive_exactly(tmp_path, values):
    measurement = dataclasses.replace(known(RECORD.measurement), samples=Samples(tuple(values)))
    record = dataclasses.replace(RECORD, measurement=measurement)
    with Store(tmp_path / "s", create=True) as store:
        store.write(record, 0)
        assert store.records() == (record,)


def test_nan_and_infinity_survive(tmp_path):
    record = dataclasses.replace(RECORD, verification=Verification(False, float("inf"), 1e-6, "C[0]", "H200"))
    with Store(tmp_path, create=True) as store:
        store.write(record, 0)
        assert store.records() == (record,)


def test_a_profile_comes_back_as_it_was(tmp_path):
    launch = LaunchCounters("k", 1.0, None, occupancy=0.5, pipes={"fma": 0.25}, stalls={"wait": 1.5})
    record = dataclasses.replace(RECORD, profile=Profile("Nsight Compute 2025.3.1.0", "cold", (launch,), ("note",)))
    with Store(tmp_path, create=True) as store:
        store.write(record, 0)
        assert store.record(record.variant) == record


def test_a_record_that_cannot_be_read_is_an_error_not_a_guess(tmp_path):
    with Store(tmp_path, create=True) as store:
        store.write(RECORD, 0)
    with sqlite3.connect(tmp_path / "run.sqlite") as db:
        db.execute('UPDATE records SET json = replace(json, \'"flops":100\', \'"flops":"x"\')')
    with Store(tmp_path) as store, pytest.raises(StoreError, match="cannot be read"):
        store.records()


def test_files_are_written_whole(tmp_path):
    with Store(tmp_path, create=True) as store:
        store.write_files("v", {"kernel.cu": "text\n", "kernel.cubin": b"\x00\xff"})
        folder = store.variant_folder("v").path
    assert (folder / "kernel.cu").read_text() == "text\n"
    assert (folder / "kernel.cubin").read_bytes() == b"\x00\xff"
    assert sorted(p.name for p in folder.iterdir()) == ["kernel.cu", "kernel.cubin"]


def test_a_record_whose_files_are_not_all_there_is_not_whole(tmp_path):
    with Store(tmp_path, create=True) as store:
        assert store.count() == 0
        for position, name in enumerate(("whole", "cut", "bare")):
            store.write(dataclasses.replace(RECORD, variant=name), position)
        sizes = json.dumps({"sizes": {"kernel.ptx": 3}})
        store.write_files("whole", {"kernel.ptx": "abc", "provenance.json": sizes})
        store.write_files("cut", {"kernel.ptx": "ab", "provenance.json": sizes})
        assert set(store.whole_records()) == {"whole"}
        assert store.count() == 3


def named(*names):
    return [dataclasses.replace(RECORD, variant=name) for name in names]


def order(store):
    return [record.variant for record in store.records()]


def test_a_comparison_with_a_second_run_comes_back(tmp_path):
    found = RepeatRecord("2026", "", 3, 0, 3, 3, (), {"a": 0.5}, 1, 2, 2, None)
    with Store(tmp_path, create=True) as store:
        assert store.repeat() is None
        store.write_repeat(found)
        assert store.repeat() == found
        store._commit(("UPDATE run SET json='{}' WHERE key='repeat'", [()]))
        with pytest.raises(StoreError, match="the comparison with the second run cannot be read"):
            store.repeat()


def test_a_run_that_is_not_there_or_cannot_be_read(tmp_path):
    with Store(tmp_path, create=True) as store:
        with pytest.raises(StoreError, match="holds no run: the database is empty"):
            store.run()
        store.write_run(RUN)
        store._commit(("UPDATE run SET json='{}'", [()]))
        with pytest.raises(StoreError, match="the run's facts cannot be read"):
            store.run()


def test_one_record_by_its_name(tmp_path):
    first, second = named("a", "b")
    with Store(tmp_path, create=True) as store:
        store.write(first, 0)
        store.write(second, 1)
        assert (store.record("a"), store.record("b")) == (first, second)
        with pytest.raises(StoreError, match="holds no variant c"):
            store.record("c")
        store._commit(("UPDATE records SET json='{}' WHERE variant='a'", [()]))
        with pytest.raises(StoreError, match="a record cannot be read"):
            store.record("a")
        assert store.record("b") == second


def test_records_of_other_variants_are_dropped_and_places_change(tmp_path):
    with Store(tmp_path, create=True) as store:
        for position, record in enumerate(named("a", "b", "c", "d")):
            store.write(record, position)
        store.place("a", 9)
        assert order(store) == ["b", "c", "d", "a"]
        store.drop_others(["a", "c", "x"])
        assert order(store) == ["c", "a"]
        store.place("c", 9)
        assert order(store) == ["a", "c"]  # equal places: by name
        store.drop_others([])
        assert order(store) == []


def test_a_new_run_forgets_all_but_the_runs_own_facts(tmp_path):
    with Store(tmp_path, create=True) as store:
        store.write_run(RUN)
        store.note("other", 3)
        store.write(RECORD, 0)
        store.clear()
        assert (store.run(), store.noted("other"), store.count()) == (RUN, None, 0)


def test_records_are_texts_in_utf_8(tmp_path):
    record = dataclasses.replace(RECORD, reason="µ")
    with Store(tmp_path, create=True) as store:
        store.write(record, 0)
        [text] = store.texts()
    assert isinstance(text, bytes)
    assert json.loads(text) == record_to_json(record)


def test_a_variants_file_is_read_as_it_was_written(tmp_path):
    with Store(tmp_path, create=True) as store:
        store.write_files("v", {"a": "b"})
        store.write_files("v", {"a": "c", "d": "e"})  # once more
        assert (store.read_file("v", "a"), store.read_file("v", "d")) == (b"c", b"e")
        assert store.variant_folder("v").path == tmp_path / "variants" / "v"
        with pytest.raises(StoreError, match="x cannot be read: No such file"):
            store.read_file("v", "x")
        (tmp_path / "variants" / "w").write_text("")
        with pytest.raises(StoreError, match="w: expected a folder, found a regular file"):
            store.write_files("w", {"a": "b"})


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"sizes": 3}', '{"sizes": {"kernel.ptx": 3}}', "null"])
def test_a_variant_whose_sizes_cannot_be_read_is_not_whole(tmp_path, text):
    with Store(tmp_path, create=True) as store:
        store.write(RECORD, 0)
        store.write_files(RECORD.variant, {"provenance.json": text})
        assert store._files_are_whole(RECORD.variant) is False
        assert store.whole_records() == {}
        store.write_files(RECORD.variant, {"provenance.json": '{"sizes": {}}'})
        assert store.whole_records() == {RECORD.variant: RECORD}
