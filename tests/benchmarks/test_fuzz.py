"""A few of the mutated inputs of `benchmarks/fuzz.py`, which takes a hundred thousand."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest


@pytest.fixture(scope="module")
def fuzz(benchmark_script):
    return benchmark_script("fuzz")


def test_mutated_inputs_are_read_or_refused_in_words(fuzz):
    counts, wrong = fuzz.fuzz(500, 20261121)
    assert wrong == []
    names = {name.partition(":")[0] for name in counts}
    assert names == {*fuzz.corpora(), *fuzz.GROWN}
    assert all(counts[f"{name}: read"] for name in names - {"template", "grown template"})
    assert all(counts[f"{name}: refused"] for name in names - {"line table"})


def test_it_finds_what_it_looks_for(fuzz, monkeypatch):
    def careless(content, folder):
        if b"touch" in content:
            (folder / "CANARY").write_text("")
        return {}[content[:1]]

    monkeypatch.setattr(fuzz, "GROWN", {})
    monkeypatch.setattr(fuzz, "corpora", lambda: {"careless": (careless, [b"abc"])})
    _, wrong = fuzz.fuzz(200, 1)
    assert any("KeyError" in one for one in wrong)
    assert any("wrote CANARY" in one for one in wrong)


def test_it_hears_of_files_processes_and_connections(fuzz, monkeypatch, tmp_path):
    elsewhere = tmp_path / "elsewhere"

    def careless(content, folder):
        elsewhere.write_text("")
        elsewhere.unlink()
        subprocess.run(["true"], check=True)  # noqa: S607 - it does nothing
        with socket.socket() as opened:
            opened.connect_ex(("127.0.0.1", 9))

    monkeypatch.setattr(fuzz, "GROWN", {})
    monkeypatch.setattr(fuzz, "corpora", lambda: {"careless": (careless, [b"abc"])})
    _, wrong = fuzz.fuzz(1, 1)
    for words in ("elsewhere' for writing", "os.remove", "started ['true']", "socket.connect"):
        assert any(words in one for one in wrong), words


def test_it_sees_processes_that_nobody_expects(fuzz):
    with subprocess.Popen(["sleep", "60"]) as child:  # noqa: S607 - until it is seen
        try:
            assert any("sleep" in line for line in fuzz.WATCH.foreign_processes())
        finally:
            child.kill()


def test_a_file_name_that_a_compiler_would_get_is_an_escape(fuzz, monkeypatch):
    grown = sys.modules["fuzz_grown"]
    monkeypatch.setattr(grown, "accepted", lambda given, compiler: tuple(given))
    with pytest.raises(AssertionError, match="a compiler gets '-ccbin=CANARY'"):
        grown.read_options(b"-ccbin=CANARY", None)
