"""A few of the mutated inputs of `benchmarks/fuzz.py`, which takes a hundred thousand."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def fuzz(benchmark_script):
    return benchmark_script("fuzz")


def test_mutated_inputs_are_read_or_refused_in_words(fuzz):
    counts, wrong = fuzz.fuzz(1000, 20261121)
    assert wrong == []
    names = {name.partition(":")[0] for name in counts}
    assert names == set(fuzz.corpora())
    assert all(counts[f"{name}: read"] for name in names - {"template"})
    assert all(counts[f"{name}: refused"] for name in names - {"line table"})


def test_it_finds_what_it_looks_for(fuzz, monkeypatch):
    def careless(content, folder):
        if b"touch" in content:
            (folder / "CANARY").write_text("")
        return {}[content[:1]]

    monkeypatch.setattr(fuzz, "corpora", lambda: {"careless": (careless, [b"abc"])})
    _, wrong = fuzz.fuzz(200, 1)
    assert any("KeyError" in one for one in wrong)
    assert any("wrote CANARY" in one for one in wrong)
