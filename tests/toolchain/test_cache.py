from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lab.isa.sass.lines import LineTable
from lab.toolchain import cache
from lab.toolchain.base import Build, CompiledLaunch, CompileRequest, Disassembly, Resources
from lab.toolchain.cache import Cache

BUILD = Build(
    ptx=".version 9.0\n// größe\n",
    cubin=bytes(range(256)) * 4,
    resources={"k": Resources(21, 4, 8, 16, 4224, 380, 1), "other": Resources(8, 0, 0, 0, 0, 368, 0)},
    log="ptxas info\n",
    command="nvrtc kernel.cu",
    toolchain="nvrtc",
    version="13.5.37",
    arch="sm_90",
    seconds=0.125,
    launch=CompiledLaunch(threads=128, cluster=2, absent_arguments=(1, 3), grid_syncs=("k",)),
)
LINES = LineTable(("/kernel.cu", "/cuda/cuda_fp16.h"), {"k": {0: (0, 5), 16: (1, 700)}, "other": {}})
DISASSEMBLY = Disassembly(text="listing\n", lines=LINES, version="13.5.37")
KEY = "0" * 64


@dataclass(frozen=True)
class FakeToolchain:
    name: str = "nvrtc"
    version: str = "13.5.37"
    identity: str = "headers 13.5"
    architectures: tuple[str, ...] = ()

    def supports(self, arch):
        raise NotImplementedError(arch)

    def compile(self, request):
        raise NotImplementedError


REQUEST = CompileRequest("source", "kernel.cu", "sm_90", ("-O3",))


def test_what_is_put_is_got(tmp_path):
    store = Cache(tmp_path / "new" / "folder")
    assert store.get(KEY) is None
    store.put(KEY, BUILD, DISASSEMBLY)
    assert store.get(KEY) == (BUILD, DISASSEMBLY)
    assert store.get("1" * 64) is None
    other = replace(BUILD, log="another")
    store.put(KEY, other, DISASSEMBLY)
    assert store.get(KEY) == (other, DISASSEMBLY)


words = st.text(max_size=8)
requests = st.builds(
    CompileRequest,
    source=words,
    name=words,
    arch=words,
    options=st.lists(words, max_size=3).map(tuple),
    included=st.dictionaries(words, words, max_size=2).map(lambda one: tuple(sorted(one.items()))),
)
toolchains = st.builds(FakeToolchain, name=words, version=words, identity=words)


facts = st.tuples(toolchains, requests, words)


@given(facts, facts)
def test_keys_are_equal_when_everything_is(one, two):
    assert (cache.cache_key(*one) == cache.cache_key(*two)) == (one == two)


@given(st.sampled_from([f.name for f in fields(CompileRequest)]), words)
def test_any_change_of_a_request_changes_the_key(field, text):
    value: Any = {"options": (text,), "included": ((text, text),), "kernels": (text,)}.get(field, text)
    changed = replace(REQUEST, **{field: value})
    assert (cache.cache_key(FakeToolchain(), changed, "1") != cache.cache_key(FakeToolchain(), REQUEST, "1")) == (
        changed != REQUEST
    )


@given(st.sampled_from(["name", "version", "identity"]), words)
def test_any_change_of_a_toolchain_changes_the_key(field, text):
    changed = replace(FakeToolchain(), **{field: text})
    assert (cache.cache_key(changed, REQUEST, "1") != cache.cache_key(FakeToolchain(), REQUEST, "1")) == (
        changed != FakeToolchain()
    )


def test_schema_and_disassembler_are_in_the_key(monkeypatch):
    key = cache.cache_key(FakeToolchain(), REQUEST, "13.5.37")
    assert cache.cache_key(FakeToolchain(), REQUEST, "13.0.85") != key
    monkeypatch.setattr(cache, "SCHEMA", cache.SCHEMA + 1)
    assert cache.cache_key(FakeToolchain(), REQUEST, "13.5.37") != key


def test_options_are_not_run_together():
    joined = cache.cache_key(FakeToolchain(), replace(REQUEST, options=("-O3 -g",)), "1")
    assert joined != cache.cache_key(FakeToolchain(), replace(REQUEST, options=("-O3", "-g")), "1")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_damaged_entry_is_a_miss(tmp_path, data):
    store = Cache(tmp_path)
    store.put(KEY, BUILD, DISASSEMBLY)
    path = next(tmp_path.glob("*.entry"))
    content = bytearray(path.read_bytes())
    for at in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=8, unique=True)):
        content[at] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    assert store.get(KEY) is None
    store.put(KEY, BUILD, DISASSEMBLY)
    assert store.get(KEY) == (BUILD, DISASSEMBLY)


def test_a_truncated_entry_is_a_miss(tmp_path):
    store = Cache(tmp_path)
    store.put(KEY, BUILD, DISASSEMBLY)
    path = next(tmp_path.glob("*.entry"))
    content = path.read_bytes()
    for length in (*range(0, len(content), 37), len(content) - 1):
        path.write_bytes(content[:length])
        assert store.get(KEY) is None
    path.write_bytes(content + b"x")
    assert store.get(KEY) is None


@pytest.mark.parametrize("harm", ["a folder", "a link to nowhere", "not ours to read"])
def test_what_cannot_be_read_is_a_miss_and_costs_no_build(tmp_path, monkeypatch, harm):
    store = Cache(tmp_path)
    path = store._path(KEY)
    if harm == "a folder":
        path.mkdir()
    elif harm == "a link to nowhere":
        path.symlink_to(tmp_path / "gone")
    else:
        store.put(KEY, BUILD, DISASSEMBLY)
        monkeypatch.setattr(Path, "read_bytes", lambda _: (_ for _ in ()).throw(PermissionError(13, "denied")))
    assert store.get(KEY) is None
    store.put(KEY, BUILD, DISASSEMBLY)
    monkeypatch.undo()
    assert store.get(KEY) == (None if harm == "a folder" else (BUILD, DISASSEMBLY))


def test_an_entry_under_another_name_is_a_miss(tmp_path):
    store = Cache(tmp_path)
    store.put(KEY, BUILD, DISASSEMBLY)
    next(tmp_path.glob("*.entry")).rename(store._path("1" * 64))
    assert store.get("1" * 64) is None


def test_a_whole_entry_of_another_shape_is_a_miss(tmp_path, monkeypatch):
    store = Cache(tmp_path)
    monkeypatch.setattr(cache, "asdict", lambda value: {"unknown": repr(value)})
    store.put(KEY, BUILD, DISASSEMBLY)
    assert len(list(tmp_path.glob("*.entry"))) == 1
    assert store.get(KEY) is None


def test_a_folder_that_cannot_be_written_warns_once(tmp_path, caplog):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    store = Cache(blocked / "cache")
    with caplog.at_level(logging.WARNING):
        store.put(KEY, BUILD, DISASSEMBLY)
        store.put(KEY, BUILD, DISASSEMBLY)
    assert store.get(KEY) is None
    assert [record.getMessage() for record in caplog.records] == [
        f"nothing is cached: cannot write to {blocked / 'cache'} (Not a directory)"
    ]


def test_a_full_disk_leaves_no_part_behind(tmp_path, monkeypatch, caplog):
    def full(*_):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(Path, "replace", full)
    with caplog.at_level(logging.WARNING):
        Cache(tmp_path).put(KEY, BUILD, DISASSEMBLY)
    assert "No space left" in caplog.text
    assert list(tmp_path.iterdir()) == []


def test_prune_takes_the_least_recently_used(tmp_path):
    store = Cache(tmp_path)
    keys = [str(number) * 64 for number in range(4)]
    for age, key in enumerate(keys):
        store.put(key, BUILD, DISASSEMBLY)
        os.utime(store._path(key), (1000 + age, 1000 + age))
    assert store.get(keys[0]) is not None  # used now, so the youngest
    size = store._path(keys[0]).stat().st_size
    store.prune(2 * size)
    assert [key for key in keys if store.get(key)] == [keys[0], keys[3]]
    store.prune(0)
    assert entries(tmp_path) == []


def entries(folder):
    return list(folder.glob("*.entry"))


def test_put_keeps_within_the_limit(tmp_path):
    Cache(tmp_path).put(KEY, BUILD, DISASSEMBLY)
    size = entries(tmp_path)[0].stat().st_size
    store = Cache(tmp_path, max_bytes=4 * size)
    for number in range(1, 7):
        store.put(f"{number:064}", BUILD, DISASSEMBLY)
        assert sum(path.stat().st_size for path in entries(tmp_path)) <= 4 * size
    assert store.get(f"{6:064}") is not None
    assert len(entries(tmp_path)) > 1


@pytest.fixture
def looked_at(monkeypatch):
    """Names of the entries that listing a folder yields, as often as it does."""
    entries_listed, scandir = [], os.scandir

    def named(items):
        for item in items:
            entries_listed.append(item.name)
            yield item

    @contextlib.contextmanager
    def counted(folder):
        with scandir(folder) as items:
            yield named(items)

    monkeypatch.setattr(os, "scandir", counted)
    return entries_listed


@pytest.mark.parametrize("others", [10, 2000])
def test_a_put_looks_at_no_other_entry(tmp_path, looked_at, others):
    for number in range(others):
        (tmp_path / f"{number:064}.entry").touch()
    store = Cache(tmp_path)
    for number in range(20):
        store.put(f"f{number:063}", BUILD, DISASSEMBLY)
    assert looked_at == []
    assert len(entries(tmp_path)) == others + 20


def test_pruning_is_shared_by_many_puts_of_many_processes(tmp_path, looked_at):
    limit = 64 * 4096  # pruned when five entries, of a block at most each, have been written
    for number in range(200):
        Cache(tmp_path, max_bytes=limit).put(f"{number:064}", BUILD, DISASSEMBLY)  # each as if in its own process
    listings = looked_at.count(cache.JOURNAL)
    assert listings == 40
    size = entries(tmp_path)[0].stat().st_size
    assert size * len(entries(tmp_path)) <= limit


def test_entries_that_a_killed_process_did_not_prune_go_with_the_next(tmp_path):
    Cache(tmp_path).put(KEY, BUILD, DISASSEMBLY)
    size = entries(tmp_path)[0].stat().st_size
    for number in range(1, 30):
        Cache(tmp_path).put(f"{number:064}", BUILD, DISASSEMBLY)
    os.truncate(tmp_path / cache.JOURNAL, 0)  # it emptied the journal and got no further
    Cache(tmp_path, max_bytes=4 * size).put("f" * 64, BUILD, DISASSEMBLY)
    assert 1 < len(entries(tmp_path)) <= 4


def _hammer(folder, seed):
    store = Cache(folder, max_bytes=4096)
    for number in range(60):
        key = f"{(number * seed) % 5:064}"
        found = store.get(key)
        assert found is None or found == (replace(BUILD, log=key), DISASSEMBLY)
        store.put(key, replace(BUILD, log=key), DISASSEMBLY)


def test_processes_share_a_folder(tmp_path):
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_hammer, args=(tmp_path, seed)) for seed in (1, 2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    assert not list(tmp_path.glob("*.part"))


def test_the_default_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path))
    assert cache.default_folder() == tmp_path
    monkeypatch.delenv("LAB_CACHE_DIR")
    assert cache.default_folder().name == "lab"
