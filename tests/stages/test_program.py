"""The program's identity: sources it depends on."""

from __future__ import annotations

from lab.stages import program as module
from lab.stages.program import program


def test_it_is_the_same_each_time_and_another_one_with_other_sources(monkeypatch):
    program.cache_clear()
    before = program()
    assert program() == before
    program.cache_clear()
    monkeypatch.setattr(module, "_ROOMS", ("base",))
    assert program() != before
    program.cache_clear()
