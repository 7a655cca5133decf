"""The variant that stands in for a reference."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

from run_support import InProcess

from lab.runs.reference import first_that_compiles, note_of
from lab.stages.build import BuildFailure, BuildTask, Built
from lab.toolchain.base import Build

EXPERIMENT = cast("Any", None)
"""Nothing of it is needed where no grid depends on the GPU."""


def planned(number):
    point = SimpleNamespace(kernel=SimpleNamespace(name="k"))
    one: Any = SimpleNamespace(variant=f"v{number}", label=f"unroll={number}", point=point, toolchain=None)
    one.request, one.launches = number, SimpleNamespace(entries=("k",), wait_for_occupancy=False)
    one.built, one.launched = lambda known: one, None
    return one


def built(number):
    made = Build(f"ptx {number}", b"cubin", {}, "", "", "nvrtc", "13", "sm_90", 0.0)
    return Built(made, cast("Any", None), cached=False, ptx={}, sass={}, sass_sha256="", loops={})


def compiles_from(first):
    def build(tasks: list[BuildTask]):
        return [built(task.request) if cast("int", task.request) >= first else BuildFailure("no") for task in tasks]

    return build


def test_it_is_the_first_that_compiles():
    found = first_that_compiles(EXPERIMENT, [planned(n) for n in range(5)], InProcess(), compiles_from(2), None)
    assert found is not None
    assert (found.planned.variant, found.ptx, found.cubin) == ("v2", "ptx 2", b"cubin")
    assert "k unroll=2" in note_of(found)


def test_without_one_the_page_says_that_nothing_was_checked():
    found = first_that_compiles(EXPERIMENT, [planned(n) for n in range(3)], InProcess(), compiles_from(9), None)
    assert found is None
    assert "no output was checked" in note_of(found)


def test_a_build_that_hangs_is_passed_over():
    class Hanging(InProcess):
        def submit(self, function, *args, timeout_s):
            if args[0][0].request == 0:
                promised: Future[Any] = Future()
                promised.set_exception(TimeoutError())
                return promised
            return super().submit(function, *args, timeout_s=timeout_s)

    found = first_that_compiles(EXPERIMENT, [planned(0), planned(1)], Hanging(), compiles_from(0), None)
    assert found is not None
    assert found.ptx == "ptx 1"
