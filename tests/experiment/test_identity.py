"""Whatever decides a record is in its fingerprint, and a resumed run makes the record again where it changed."""

from __future__ import annotations

import dataclasses
from enum import Enum
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import BaseModel
from run_support import all_played, build_once

from lab.base.validation import Strict
from lab.experiment import identity
from lab.experiment.identity import IGNORED, counts, fields_of, fingerprint, plain
from lab.experiment.load import load
from lab.experiment.model import Experiment, KernelEntry
from lab.experiment.problems import ProblemCase
from lab.experiment.space import Point, expand
from lab.experiment.variants import Planned, plan
from lab.hardware.tensormaps import TensorMap
from lab.runs.observer import RunObserver
from lab.runs.pipeline import RunOptions, run
from lab.stages.provenance import NO_CONDITION, conditions_of
from lab.store.codec import record_to_text
from lab.templates.front_matter import (
    Entry,
    FrontMatter,
    LaunchDeclaration,
    Parameter,
    Template,
    TensorMapDeclaration,
    WorkspaceDeclaration,
)
from lab.templates.launches import Launch, Launches, Workspace
from lab.templates.plain.bound import BoundArgument
from lab.templates.plain.template import PlainTemplate
from lab.templates.plain.triton import TritonTemplate
from lab.toolchain.base import CompileRequest, Toolchain

TYPES = (
    Planned, Point, KernelEntry, ProblemCase, Template, PlainTemplate, TritonTemplate, FrontMatter, Parameter, Entry,
    LaunchDeclaration, WorkspaceDeclaration, TensorMapDeclaration, CompileRequest, Launches, Launch, Workspace,
    TensorMap, BoundArgument,
)  # fmt: skip
"""Every type below a planned variant, except requirements, which count nowhere."""

FACTS = [(kind, name) for kind in TYPES for name in fields_of(kind)]

SEQUENCE = """{#---
summary: s
operator: gemm
parameters: {first: {type: int, default: 1, help: h, values: [1, 2], min: 0, max: 9}, m0: {type: mapping, default: "cyclic(width=1)", help: h}}
launches:
  - {entry: k, grid: [1], block: [32], arguments: {m: int32, W: float32*, M: tensor_map}, shared_bytes: 8, bytes_moved: 64, main: true}
  - {entry: k, grid: [2], block: [32], arguments: {m: int32, W: float32*, M: tensor_map}, when: "first == 1"}
workspace: {W: {type: float32, elements: 64, zero: true}}
tensor_maps: {M: {of: A, extents: [64, 64], leading: 64, box: [16, 16]}}
derived: {twice: "first * 2"}
problem: {dtype: [float32]}
predicts: {global.load: 4}
requires: [{that: "first > 0", because: b}]
---#}
extern "C" __global__ void k(int m, float* W, const __grid_constant__ char M) { W[threadIdx.x] = m; }
"""  # noqa: E501
SINGLE = """{#---
summary: s
idea: why
operator: gemm
entries: [{name: k, when: "first == 1"}, {name: other}]
parameters: {first: {type: int, default: 1, help: h}}
grid: [1]
block: [32]
shared_bytes: 16
arguments: {m: int32, C: T*}
predicts: {global.load: 4}
---#}
extern "C" __global__ void k(int m, {{ T }}* C) { C[threadIdx.x] = m; }
extern "C" __global__ void other(int m, {{ T }}* C) { C[threadIdx.x] = m; }
"""
EXPERIMENT = """question: Does it?
operator: gemm
problem: {m: 64, n: 64, k: 64}
emulate: {m: 32}
kernels:
  - {template: single.cu.j2, parameters: {first: [1, 2]}}
  - {template: sequence.cu.j2}
archs: [sm_90]
"""


PLAIN = "__global__ void k(float* c, int n) { c[threadIdx.x] = n + width; }\n"
SHORT = """source: plain.cu
problem: {n: 64}
arguments: {c: "out float32[n]", n: int32}
parameters: {width: 1}
grid: 1
block: n
"""


BESIDE = """question: Does it?
operator: gemm
problem: {m: 64, n: 64, k: 64}
kernels: [{source: plain.cu, arguments: {c: C, n: 2 * n}, parameters: {width: 1}, grid: 1, block: 32}]
"""


TRITON = """import triton
import triton.language as tl

@triton.jit
def k(c, n, width: tl.constexpr, none: tl.constexpr = None):
    tl.store(c + tl.arange(0, 64), n + width)
"""
TRITON_SHORT = SHORT.replace("plain.cu", "plain.py:k").replace("block: n\n", "")


class Compiler:
    version, identity = "1", "headers 1"

    def __init__(self, name: str = "played") -> None:
        self.name = name

    def supports(self, arch: str) -> bool:
        return True


@pytest.fixture
def planned(tmp_path):
    (tmp_path / "single.cu.j2").write_text(SINGLE)
    (tmp_path / "sequence.cu.j2").write_text(SEQUENCE)
    (tmp_path / "small.yaml").write_text(EXPERIMENT)
    (tmp_path / "plain.cu").write_text(PLAIN)
    (tmp_path / "plain.yaml").write_text(SHORT)
    (tmp_path / "beside.yaml").write_text(BESIDE)
    (tmp_path / "plain.py").write_text(TRITON)
    (tmp_path / "triton.yaml").write_text(TRITON_SHORT)
    made = [load(tmp_path / name) for name in ("small.yaml", "plain.yaml", "triton.yaml", "beside.yaml")]
    played = [cast("Toolchain", Compiler()), cast("Toolchain", Compiler("triton"))]
    return tuple(one for each in made for one in plan(each, expand(each).points, played, ["sm_90"]))


def copies(value: Any, kind: type, name: str) -> list[Any]:
    """The value with field `name` of one `kind` below it changed, once for each such place."""
    if isinstance(value, dict):
        return [{**value, key: copy} for key, below in value.items() for copy in copies(below, kind, name)]
    if isinstance(value, list | tuple):
        return [
            type(value)([*value[:i], copy, *value[i + 1 :]])
            for i, below in enumerate(value)
            for copy in copies(below, kind, name)
        ]
    if not dataclasses.is_dataclass(value) and not isinstance(value, BaseModel):
        return []
    changed_copies = []
    for field in fields_of(type(value)):
        below = getattr(value, field)
        if counts(type(value), field):
            changed_copies += [with_field(value, field, copy) for copy in copies(below, kind, name)]
        if type(value) is kind and field == name:
            changed_copies.append(with_field(value, field, changed(below)))
    return changed_copies


def with_field(value: Any, name: str, now: object) -> Any:
    return (
        value.model_copy(update={name: now})
        if isinstance(value, BaseModel)
        else dataclasses.replace(value, **{name: now})
    )


def changed(value: Any) -> object:  # noqa: PLR0911 - one for each kind of value
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str | Enum):
        return f"{value} changed"
    if isinstance(value, Path):
        return value / "changed"
    if isinstance(value, tuple):
        return (*value, "one more")
    if isinstance(value, list):
        return [*value, "one more"]
    if isinstance(value, dict):
        return {**value, "more": 1}
    if isinstance(value, Compiler):
        other = Compiler(value.name)
        other.identity = "headers 2"
        return other
    return "something else"


@pytest.mark.parametrize(("kind", "name"), FACTS, ids=lambda one: getattr(one, "__name__", one))
def test_every_fact_counts_unless_it_is_named_with_a_reason(planned, kind, name):
    others = [other for one in planned for other in copies(one, kind, name)]
    assert others, "the examples of this test lack this fact"
    before = {one.fingerprint for one in planned}
    after = {fingerprint(other) for other in others}
    if not counts(kind, name):
        assert after <= before
    else:
        assert not after & before


def test_only_fields_that_exist_are_ignored():
    names = {(kind.__name__, name) for kind, name in FACTS}
    assert {one for one in IGNORED if one not in names} == set()
    assert {name for name in NO_CONDITION if name not in fields_of(Experiment)} == set()


def test_every_type_below_a_variant_is_in_the_list(planned):
    def types(value: Any) -> set[type]:
        if isinstance(value, dict):
            return {kind for one in value.values() for kind in types(one)}
        if isinstance(value, list | tuple):
            return {kind for one in value for kind in types(one)}
        if not dataclasses.is_dataclass(value) and not isinstance(value, BaseModel):
            return set()
        here = type(value)
        counted = [name for name in fields_of(here) if counts(here, name)]
        return {here} | {kind for name in counted for kind in types(getattr(value, name))}

    below = {kind.__name__ for one in planned for kind in types(one)}
    assert below - {"GemmProblem", "DeclaredProblem"} == {kind.__name__ for kind in TYPES}


def test_the_order_of_arguments_counts_and_that_of_parameters_does_not(planned):
    variant = planned[0]
    point = dataclasses.replace(variant.point, parameters=dict(reversed(variant.point.parameters.items())))
    assert fingerprint(dataclasses.replace(variant, point=point)) == variant.fingerprint
    assert plain({"a": 1, "b": 2}) != plain({"b": 2, "a": 1})
    assert plain(1) is not plain(True)


def test_a_value_without_a_plain_form_is_refused_and_never_left_out():
    with pytest.raises(TypeError, match="object has no plain form"):
        fingerprint({"a": object()})


class Impatient(RunObserver):
    """Presses Ctrl-C when all variants have their records."""

    def __init__(self, left: int) -> None:
        self.left = left

    def recorded(self, record: object) -> None:
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


EDITS = {
    "grid": ("grid: [1]", "grid: [3]"),
    "block": ("block: [32]", "block: [64]"),
    "shared bytes": ("shared_bytes: 16", "shared_bytes: 32"),
    "carve-out": ("shared_bytes: 16", "shared_bytes: 16\ncarveout: l1"),
    "arguments": ("{m: int32, C: T*}", "{n: int32, C: T*}"),
    "predictions": ("predicts: {global.load: 4}", "predicts: {global.load: 8}"),
    "entries": ('when: "first == 1"', 'when: "first == 2"'),
    "kind of parameter": ("type: int,", "type: float,"),
    "source": ("C[threadIdx.x] = m", "C[threadIdx.x] = m + 1"),
}
SEQUENCE_EDITS = {
    "bytes moved": ("bytes_moved: 64", "bytes_moved: 128"),
    "main": (", main: true", ""),
    "launch": ("grid: [2]", "grid: [4]"),
    "workspace": ("elements: 64", "elements: 128"),
    "zeroing": (", zero: true", ""),
    "tensor map": ("box: [16, 16]", "box: [16, 32]"),
    "derived": ("first * 2", "first * 3"),
}


def one_run(folder, observer=None):
    built = []

    def building(tasks):
        built.extend(tasks)
        return build_once(tasks)

    outcome = run(folder / "small.yaml", RunOptions(output=folder / "out"), observer, all_played(build=building))
    return outcome, built


@pytest.mark.parametrize("name", [*EDITS, *SEQUENCE_EDITS])
def test_a_resumed_run_makes_the_records_of_a_changed_template_again_and_keeps_the_others(planned, tmp_path, name):
    file, (old, new) = ("single.cu.j2", EDITS[name]) if name in EDITS else ("sequence.cu.j2", SEQUENCE_EDITS[name])
    first, _ = one_run(tmp_path, Impatient(3))
    assert (len(first.records), first.interrupted) == (3, True)
    text = (tmp_path / file).read_text()
    assert old in text
    (tmp_path / file).write_text(text.replace(old, new, 1))
    second, built = one_run(tmp_path)
    assert not second.interrupted
    assert {task.request.source for task in built}  # something was made again
    kept = {record.variant: record for record in first.records}
    for record in second.records:
        same_template = record.template != file
        earlier = kept.get(record.variant)
        assert (earlier is not None and earlier.fingerprint == record.fingerprint) == same_template
    (tmp_path / "out2").mkdir()
    whole = run(tmp_path / "small.yaml", RunOptions(output=tmp_path / "out2"), None, all_played(build=build_once))
    assert [record_to_text(record) for record in second.records] == [record_to_text(record) for record in whole.records]


def test_prose_in_a_template_costs_nothing(planned, tmp_path):
    one_run(tmp_path, Impatient(3))
    (tmp_path / "single.cu.j2").write_text(SINGLE.replace("idea: why", "idea: because"))
    assert one_run(tmp_path)[1] == []


def test_a_label_that_changed_is_that_of_a_whole_run(planned, tmp_path):
    one_run(tmp_path, Impatient(3))
    (tmp_path / "small.yaml").write_text(EXPERIMENT.replace("first: [1, 2]", "first: 1"))
    resumed, built = one_run(tmp_path)
    assert not built
    assert [record.label for record in resumed.records] == ["", ""]


CONDITIONS: dict[str, Any] = {
    "operator_reference": "softmax",
    "baselines": ("copy",),
    "cache": "warm",
    "gpu": "V100",
    "seed": 7,
}


def test_every_field_of_an_experiment_is_a_condition_or_says_why_not(planned, tmp_path):
    experiment = load(tmp_path / "small.yaml")
    before = conditions_of(experiment, None, emulated=True, measured=True)
    for name in fields_of(type(experiment)):
        if name in NO_CONDITION:
            continue
        other = dataclasses.replace(experiment, **{name: CONDITIONS[name]})
        assert conditions_of(other, None, emulated=True, measured=True) != before, name


def test_which_variants_are_executed_is_a_condition_where_not_all_are(planned, tmp_path):
    experiment = dataclasses.replace(load(tmp_path / "small.yaml"), emulate_at_most=1)
    some, others = (
        conditions_of(experiment, None, emulated=True, measured=True, variants=ids) for ids in (["a"], ["a", "b"])
    )
    assert some != others


def test_a_declaration_that_variants_share_is_read_once(monkeypatch):
    class Declared(Strict):
        grid: list[int]

    read, facts = [], identity.facts

    def noted(value):
        read.append(value)
        return facts(value)

    monkeypatch.setattr(identity, "facts", noted)
    shared, equal, other = Declared(grid=[1]), Declared(grid=[1]), Declared(grid=[2])
    assert fingerprint([shared] * 9) == fingerprint([shared] * 8 + [equal]) != fingerprint([shared] * 8 + [other])
    assert len(read) == 3
