"""A host's store of parts."""

from __future__ import annotations

import os

import pytest

from lab.cluster.contents import Contents
from lab.cluster.letters import hash_of


def test_a_part_is_kept_for_every_worker_of_the_host(tmp_path) -> None:
    name = hash_of("text" * 2000)
    assert Contents(tmp_path).missing([name]) == (name,)
    Contents(tmp_path).keep(name, "text" * 2000)
    assert Contents(tmp_path).missing([name]) == ()
    assert Contents(tmp_path).part(name) == "text" * 2000


def test_an_altered_part_is_not_there(tmp_path) -> None:
    store, name = Contents(tmp_path), hash_of(b"image")
    store.keep(name, b"image")
    (file,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    file.write_bytes(b"imagf")
    with pytest.raises(KeyError):
        store.part(name)
    assert store.missing([name]) == (name,)


def test_where_the_disk_is_full_parts_stay_in_memory(tmp_path, monkeypatch) -> None:
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lab.cluster.contents.tempfile.mkstemp", full)
    store, name = Contents(tmp_path), hash_of(b"image")
    store.keep(name, b"image")
    assert store.part(name) == b"image"
    assert store.missing([name]) == ()
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_write_that_fails_leaves_no_file(tmp_path, monkeypatch) -> None:
    def fails(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lab.cluster.contents.Path.replace", fails)
    Contents(tmp_path).keep(hash_of(b"image"), b"image")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_the_oldest_parts_go_first(tmp_path) -> None:
    store = Contents(tmp_path, most_bytes=25)
    parts = [bytes([number]) * 10 for number in range(4)]
    for age, part in enumerate(parts):
        store.keep(hash_of(part), part)
        (file,) = tmp_path.rglob(hash_of(part))
        os.utime(file, (age, age))
    store.prune()
    assert store.missing(map(hash_of, parts)) == tuple(map(hash_of, parts[:2]))
