"""Executions are kept: equal ones come from the cache, equal in every field, and nothing else does."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from lab.hardware.gpus import gpu_for
from lab.hardware.latencies import latencies_of
from lab.operators.builtin import operator
from lab.predict.schedulers.estimate import Edges, Pace
from lab.stages import executed
from lab.stages.emulate import EmulationTask, emulate
from lab.stages.executed import execution, key_of
from lab.templates.launches import Launch, Launches
from lab.toolchain.cache import Cache, default_folder

PTX = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 A, .param .u64 C)
{
    .reg .b32 %r<2>;
    .reg .f32 %f<2>;
    .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [A];
    ld.param.u64 %rd2, [C];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, 4;
    add.u64 %rd4, %rd1, %rd3;
    ld.global.f32 %f1, [%rd4];
    add.u64 %rd4, %rd2, %rd3;
    st.global.f32 [%rd4], %f1;
    ret;
}
"""
GPU = gpu_for("H200")
LATENCIES = latencies_of("sm_90")
assert LATENCIES is not None
PACE = Pace(GPU, LATENCIES, {1: 10.5, 2: float("inf")}, 4, Edges(1.5, 2.0), 100.25, {"fma": 1.0})


@pytest.fixture
def task():
    problem = dict(operator("gemm").problem({"m": 8, "n": 1, "k": 1}))
    launch = Launch("k", (1, 1, 1), (8, 1, 1), 0, (("A", "float32*"), ("C", "float32*")))
    return EmulationTask(Launches((launch,)), "gemm", problem, 0, {})


@pytest.fixture(autouse=True)
def calls(monkeypatch, tmp_path):
    """Executions that took place, each with a pace; the cache is empty at first."""
    executions = []

    def execute(task, ptx, model):
        executions.append(ptx)
        return emulate(task, ptx), PACE

    monkeypatch.setattr(executed, "execute", execute)
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path))
    return executions


def test_an_execution_is_kept_and_read_as_it_was(task, calls, tmp_path):
    first = execution(task, PTX, None)
    assert first[0].verification is not None
    assert first[0].lines
    assert len(list(tmp_path.glob("*.entry"))) == 1
    assert execution(task, PTX, None) == first
    assert len(calls) == 1


@pytest.mark.parametrize("change", ["ptx", "seed", "problem", "launches", "hot_loops", "whole", "model", "program"])
def test_whatever_decides_an_execution_is_in_its_key(task, monkeypatch, change):
    before, (launch,) = key_of(task, PTX, None), task.launches.steps
    others = {
        "seed": {"seed": 1},
        "problem": {"problem": operator("gemm").problem({"m": 8, "n": 1, "k": 2})},
        "launches": {"launches": Launches((replace(launch, block=(4, 1, 1)),))},
        "hot_loops": {"hot_loops": {"k": "$L"}},
        "whole": {"whole": True},
    }
    if change == "program":
        monkeypatch.setattr(executed, "program", lambda: "a later one")
    changed = replace(task, **others.get(change, {}))
    model: Any = SimpleNamespace(blocks_per_sm=2) if change == "model" else None
    assert key_of(changed, f"{PTX}\n" if change == "ptx" else PTX, model) != before
    assert key_of(task, PTX, None) == before or change == "program"


def test_a_damaged_entry_is_executed_again_and_replaced(task, calls, tmp_path):
    first = execution(task, PTX, None)
    (entry,) = tmp_path.glob("*.entry")
    entry.write_bytes(entry.read_bytes()[:-1])
    assert execution(task, PTX, None) == first
    assert len(calls) == 2
    assert execution(task, PTX, None) == first
    assert len(calls) == 2


def test_an_entry_of_another_shape_is_executed_again(task, calls):
    Cache(default_folder()).keep(key_of(task, PTX, None), {"record": {"problem": 1}, "pace": None})
    execution(task, PTX, None)
    assert len(calls) == 1


def test_what_could_not_be_executed_is_tried_again(task, calls, tmp_path):
    refused = PTX.replace("mov.u32", "movfast.u32")
    assert execution(task, refused, None)[0].unsupported
    execution(task, refused, None)
    assert len(calls) == 2
    assert not list(tmp_path.glob("*.entry"))


def test_what_a_users_python_decides_is_not_kept(task, calls, tmp_path, monkeypatch):
    monkeypatch.setattr(executed, "users_python", lambda reference: "./ref.py:sums")
    execution(task, PTX, None)
    execution(task, PTX, None)
    assert len(calls) == 2
    assert not list(tmp_path.glob("*.entry"))
