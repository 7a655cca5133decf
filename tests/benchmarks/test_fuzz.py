"""A few of the mutated inputs of `benchmarks/fuzz.py`, which takes a hundred thousand."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, wait

import pytest


@pytest.fixture(scope="module")
def fuzz(benchmark_script):
    return benchmark_script("fuzz")


FOREIGN = ["run directory", "database", "archive"]


def test_mutated_inputs_are_read_or_refused_in_words(fuzz):
    names = [name for name in (*fuzz.corpora(), *fuzz.GROWN) if name not in FOREIGN]
    counts, wrong = fuzz.fuzz(500, 20261121, names)
    assert wrong == []
    assert {name.partition(":")[0] for name in counts} == set(names)
    assert all(counts[f"{name}: read"] for name in set(names) - {"template", "grown template"})
    assert all(counts[f"{name}: refused"] for name in set(names) - {"line table"})


def test_folders_of_somebody_elses_are_read_or_refused_in_words(fuzz):
    counts, wrong = fuzz.fuzz(60, 20261128, FOREIGN)
    assert wrong == []
    assert all(counts[f"{name}: {end}"] for name in FOREIGN for end in ("read", "refused"))


@pytest.mark.parametrize("escape", ["reads", "writes", "removes"])
def test_it_sees_files_beside_a_folder_that_are_touched(fuzz, monkeypatch, escape):
    def careless(sent, rng):
        secret = sent.parent / "outside" / "secret"
        handle = os.open(secret.parent, os.O_RDONLY)  # relative names pass the ear
        if escape == "removes":
            os.unlink("secret", dir_fd=handle)
        else:
            opened = os.open("secret", os.O_RDONLY if escape == "reads" else os.O_WRONLY, dir_fd=handle)
            os.read(opened, 9) if escape == "reads" else os.write(opened, b"mine")
            os.close(opened)
        os.close(handle)

    monkeypatch.setattr(sys.modules["fuzz_foreign"], "_use_run", careless)
    _, wrong = fuzz.fuzz(2, 1, ["database"])
    assert len(wrong) == 2
    assert all(f"files beside the folder were {'read' if escape == 'reads' else 'changed'}" in one for one in wrong)


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


def test_only_processes_below_are_asked_for_their_words(fuzz, monkeypatch):
    """Threads of the kernel have none, and each would be waited for."""
    watch = sys.modules["fuzz_watch"]
    queried, command_line = [], watch.command_line

    def noted(place):
        queried.append(place.name)
        return command_line(place)

    monkeypatch.setattr(watch, "command_line", noted)
    with subprocess.Popen(["sleep", "60"]) as child:  # noqa: S607 - until it is seen
        try:
            fuzz.WATCH.foreign_processes()
        finally:
            child.kill()
    assert str(child.pid) in queried
    assert not {"1", "2"} & set(queried)


def test_it_sees_processes_that_nobody_expects(fuzz):
    with subprocess.Popen(["sleep", "60"]) as child:  # noqa: S607 - until it is seen
        try:
            assert any("sleep" in line for line in fuzz.WATCH.foreign_processes())
        finally:
            child.kill()


def test_a_process_whose_words_are_not_set_yet_is_waited_for(fuzz, tmp_path):
    (tmp_path / "stat").write_text("7 (sleep) R 1 7 7 0")
    (tmp_path / "cmdline").write_text("")
    with ThreadPoolExecutor() as pool:
        line = pool.submit(sys.modules["fuzz_watch"].command_line, tmp_path)
        assert wait([line], timeout=0.05).not_done
        (tmp_path / "new").write_text("sleep\x0060\x00")
        (tmp_path / "new").replace(tmp_path / "cmdline")
        assert line.result() == "sleep\x0060\x00"


def test_a_zombie_is_told_by_its_name(fuzz, tmp_path):
    (tmp_path / "stat").write_text("7 (a (b) c) Z 1 7 7 0")
    (tmp_path / "cmdline").write_text("")
    assert sys.modules["fuzz_watch"].command_line(tmp_path) == "(a (b) c)"


def test_a_file_name_that_a_compiler_would_get_is_an_escape(fuzz, monkeypatch):
    grown = sys.modules["fuzz_grown"]
    monkeypatch.setattr(grown, "accepted", lambda given, compiler: tuple(given))
    with pytest.raises(AssertionError, match="a compiler gets '-ccbin=CANARY'"):
        grown.read_options(b"-ccbin=CANARY", None)
