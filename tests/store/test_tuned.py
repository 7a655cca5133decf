"""Cache files and T4 results: what Kernel Tuner writes is read, what is written is read again, and nothing crashes."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mistakes import coded
from written_runs import run_record, sweep

from lab.base.errors import UserError
from lab.recorded.run_records import Status
from lab.store.tuned import (
    TunedSetting,
    TunedSpace,
    cache_text,
    read_tuned,
    t4_text,
    tuned_space,
)

# as Kernel Tuner 1.5.0 writes it while it goes on: the last two brackets are missing
OPEN = """{
"device_name": "NVIDIA H200",
"kernel_name": "vector_add",
"problem_size": [
1000
],
"tune_params_keys": [
"block_size_x",
"fast"
],
"tune_params": {
"block_size_x": [
64,
128,
256
],
"fast": [
true,
false
]
},
"objective": "time",
"cache": {
"64,True": {"block_size_x": 64, "fast": true, "time": 0.5, "times": [0.4, 0.6], "compile_time": 12.5, "timestamp": "t"},
"128,True": {"block_size_x": 128, "fast": true, "time": "CompilationFailedConfig"},
"128,False": {"block_size_x": 128, "fast": false, "time": "RuntimeFailedConfig", "__error__": "RuntimeFailedConfig"},"""

T4 = """{"results": [
{"timestamp": "t", "configuration": {"block_size_x": 64, "fast": true}, "times": {"compilation": 12.5, "runtimes": [0.4,
 0.6]}, "invalidity": "correct", "correctness": 1, "measurements": [{"name": "time", "value": 0.5, "unit": "ms"}],
 "objectives": ["time"]},
{"configuration": {"block_size_x": 128, "fast": true}, "times": {}, "invalidity": "compile", "correctness": 1},
{"configuration": {"block_size_x": 128, "fast": false}, "times": {"runtimes": []}, "invalidity": "runtime",
 "correctness": 0}], "schema_version": "1.0.0", "metadata": {"timeunit": "milliseconds"}}"""


def read(text, tmp_path):
    (tmp_path / "file.json").write_text(text, encoding="utf-8")
    return read_tuned(tmp_path / "file.json")


@pytest.mark.parametrize("end", ["", "}\n}", "\n"])
def test_a_cache_file_is_read_open_or_closed(tmp_path, end):
    found = read(OPEN.rstrip(",") + end if "}" in end else OPEN + end, tmp_path)
    assert (found.device, found.kernel, found.problem_size) == ("NVIDIA H200", "vector_add", [1000])
    assert found.values == {"block_size_x": (64, 128, 256), "fast": (True, False)}
    first, second, third = found.settings
    assert first == TunedSetting({"block_size_x": 64, "fast": True}, 0.5, (0.4, 0.6), "", 12.5, "t")
    assert (second.ms, second.failure) == (None, "CompilationFailedConfig")
    assert (third.ms, third.failure) == (None, "RuntimeFailedConfig")


def test_t4_results_are_read(tmp_path):
    found = read(T4, tmp_path)
    assert found.values == {"block_size_x": (64, 128), "fast": (True, False)}
    assert found.settings[0] == TunedSetting({"block_size_x": 64, "fast": True}, 0.5, (0.4, 0.6), "", 12.5, "t")
    assert [setting.failure for setting in found.settings] == ["", "compile", "runtime"]


def test_t4_times_have_units_and_may_be_samples_alone(tmp_path):
    data = json.loads(T4)
    data["results"][0]["measurements"][0] = {"name": "time", "value": 500, "unit": "us"}
    assert read(json.dumps(data), tmp_path).settings[0].ms == pytest.approx(0.5)
    del data["results"][0]["measurements"]
    assert read(json.dumps(data), tmp_path).settings[0].ms == pytest.approx(0.5)


values = st.one_of(st.booleans(), st.integers(-5, 2000), st.sampled_from(["row", 'column, with "quotes"', "ü"]))
spaces = st.lists(st.tuples(values, values), min_size=1, max_size=6, unique_by=repr).flatmap(
    lambda listed: st.lists(st.one_of(st.none(), st.floats(1e-6, 1e4)), min_size=len(listed), max_size=len(listed)).map(
        lambda times: list(zip(listed, times, strict=True))
    )
)


@given(made=spaces, write=st.sampled_from([cache_text, t4_text]))
@settings(max_examples=60)
def test_what_is_written_is_read_again(tmp_path_factory, made, write):
    rows = tuple(
        TunedSetting({"a": a, "b": b}, ms, (ms, ms) if ms else (), "" if ms else "CompilationFailedConfig", 2.0, "t")
        for (a, b), ms in made
    )
    if len({f"{a},{b}" for (a, b), _ in made}) < len(made):
        return  # Kernel Tuner's own keys cannot tell such settings apart
    listed = {name: tuple({repr(row.setting[name]): row.setting[name] for row in rows}.values()) for name in ("a", "b")}
    space = TunedSpace("GPU", "k", [8], listed, rows)
    found = read(write(space), tmp_path_factory.mktemp("files"))
    assert [repr(setting.setting) for setting in found.settings] == [repr(row.setting) for row in rows]
    assert [setting.ms for setting in found.settings] == [row.ms for row in rows]
    assert [bool(setting.failure) for setting in found.settings] == [row.ms is None for row in rows]
    if write is cache_text:
        assert repr(found) == repr(space)


@given(
    text=st.one_of(
        st.text(max_size=80),
        st.integers(0, len(OPEN)).map(lambda end: OPEN[:end]),
        st.tuples(st.integers(0, len(T4) - 1), st.sampled_from('{}[]",:0nN-\\')).map(
            lambda change: T4[: change[0]] + change[1] + T4[change[0] + 1 :]
        ),
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.sampled_from(["cache", "results", "tune_params", "configuration", "time"]), inner)
            ),
            max_leaves=8,
        ).map(json.dumps),
    )
)
@settings(max_examples=150)
def test_foreign_text_is_read_or_refused(tmp_path_factory, text):
    try:
        found = read(text.encode("utf-8", "replace").decode(), tmp_path_factory.mktemp("files"))
    except UserError as error:
        assert "file.json" in str(error)  # noqa: PT017 - either way is right
    else:
        assert all(set(setting.setting) == set(found.values) for setting in found.settings)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[1, 2]", "neither a cache file nor T4 results"),
        ('{"a": ', "not JSON"),
        ('{"cache": {}, "tune_params_keys": 3}', "tune_params_keys"),
        ('{"cache": {"1": 5}, "tune_params_keys": ["a"]}', "cache.1"),
        ('{"cache": {"1": {"a": [1]}}, "tune_params_keys": ["a"]}', "cache.1.a"),
        ('{"cache": {"1": {"a": NaN}}, "tune_params_keys": ["a"]}', "cache.1.a"),
        ('{"results": [{}]}', "results[0].configuration"),
        ('{"results": [{"configuration": {"a": 1}}, {"configuration": {"b": 1}}]}', "results[1].configuration"),
        ('{"results": [{"configuration": {"a": 1}, "invalidity": "odd"}]}', "results[0].invalidity"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_a_refusal_names_what_is_wrong(tmp_path, text, named):
    with pytest.raises(UserError) as error:
        read(text, tmp_path)
    assert named in str(error.value)


def test_a_missing_or_binary_file_is_refused(tmp_path):
    with pytest.raises(UserError, check=coded("missing-file")):
        read_tuned(tmp_path / "none.json")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, check=coded("syntax", found="byte 0")):
        read_tuned(tmp_path / "binary")


def measured_run():
    records = [record for record, _ in sweep(measured=True)]
    names = tuple(name for name in records[0].parameters if len({repr(r.parameters[name]) for r in records}) > 1)
    return run_record("e", names, len(records), measured=True), records


def test_a_run_becomes_a_space():
    run, records = measured_run()
    failed = replace(records[0], status=Status.COMPILE_FAILED, measurement=None, build=None)
    pruned = replace(records[1], status=Status.PRUNED, measurement=None)
    found = tuned_space(run, [failed, pruned, *records[2:]])
    timed = [record for record in records[2:] if record.measurement and not record.status.failed]
    assert len(found.settings) >= 1 + len(timed)
    assert found.settings[0].failure == "CompilationFailedConfig"
    by_setting = {repr(setting.setting): setting.ms for setting in found.settings}
    for record in timed:
        setting = {name: record.parameters[name] for name in run.swept}
        assert by_setting[repr(setting)] == pytest.approx(record.measurement.samples.median)


def test_a_suspect_setting_has_no_time_and_one_verified_in_part_has():
    run, records = measured_run()
    statuses = (Status.SUSPECT, Status.WRONG, Status.PARTIAL)
    found = tuned_space(run, [replace(r, status=s) for r, s in zip(records, statuses, strict=False)])
    assert [setting.ms is None for setting in found.settings] == [True, True, False]
    invalid = [one["invalidity"] for one in json.loads(t4_text(tuned_space(run, records[:1])))["results"]]
    assert invalid == ["correct"]
    suspect = replace(records[0], status=Status.SUSPECT)
    assert json.loads(t4_text(tuned_space(run, [suspect])))["results"][0]["invalidity"] == "correctness"


def test_several_problems_do_not_fit_into_one_file():
    run, records = measured_run()
    other = replace(records[-1], problem={**records[-1].problem, "m": 7})
    with pytest.raises(UserError, check=coded("conflict", key="problem")):
        tuned_space(run, [*records, other])
