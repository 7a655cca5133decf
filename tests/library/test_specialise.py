from __future__ import annotations

import itertools
import re
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mistakes import coded
from narrowing import known

from lab.base.errors import Location, UserError
from lab.base.expressions import Scalar, evaluate
from lab.base.sizes import BATCH_AXES
from lab.library.calls import launches
from lab.library.emit import to_c
from lab.library.package import BATCH_SIZES, FACTORS, SIZES
from lab.library.picking import fits
from lab.library.specialise import kernel
from lab.operators.gemm import GemmProblem
from lab.templates import front_matter as kernels
from lab.templates.instance import Instance

GCC = shutil.which("gcc")
HERE = Location("test")
PROBLEM: dict[str, Scalar] = {"dtype": "float32", "alpha": 1.0, "beta": 0.5}


def at(point, expression):
    return evaluate(expression, point, at=HERE, key="test")


def template(name):
    return kernels.load(name, kernels.search_path())


def made(kernel_template, parameters, layout):
    return kernel("k", cubin="k.cubin", template=kernel_template, parameters=parameters, dtype="float32", layout=layout)


@pytest.mark.parametrize(
    "name", ["gemm/tiled.cu.j2", "gemm/sgemm.cu.j2", "gemm/v4_padded.cu.j2", "gemm/v1_coalesced.cu.j2"]
)
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_a_librarys_launch_is_the_templates(name, layout):
    kernel_template = template(name)
    parameters = kernel_template.completed({})
    shipped = made(kernel_template, parameters, layout)
    for m, n, k, odd in itertools.product((4, 255, 256, 1000), (8, 129, 512), (16, 35), (0, 1)):
        leading = {"lda": 2048 + odd, "ldb": 2048, "ldc": 2048 + 4 * odd}
        point = {"m": m, "n": n, "k": k, **leading, "alpha": 1.0, "beta": 0.5}
        expected = Instance(kernel_template, parameters, {**PROBLEM, "layout": layout, **point}).launches
        launched = [x for x in shipped.launches if not x.when or at(point, x.when)]
        assert [x.entry for x in launched] == [step.entry for step in expected.steps]
        for launch_spec, step in zip(launched, expected.steps, strict=True):
            assert tuple(at(point, e) for e in launch_spec.grid) == step.grid
            assert tuple(at(point, e) for e in launch_spec.block) == step.block
            assert at(point, launch_spec.shared_bytes) == step.dynamic_shared_bytes
            assert launch_spec.arguments == step.arguments


BULK = [
    ("gemm/sgemm.cu.j2", {"copies": "bulk", "block_m": 64, "block_n": 64, "thread_n": 8}, "nt"),
    ("gemm/sgemm.cu.j2", {"copies": "bulk", "pack": "both"}, "nn"),
    ("hgemm/v6_persistent.cu.j2", {}, "nn"),
    ("hgemm/v7_cluster.cu.j2", {"cluster": 4, "blocks": 64}, "tt"),
    ("hgemm/v8_epilogue.cu.j2", {}, "tn"),
    ("hgemm/packed.cu.j2", {}, "nt"),
    ("hgemm/split.cu.j2", {"split_k": 8}, "tt"),
]


@pytest.mark.parametrize(("name", "given", "layout"), BULK)
def test_a_librarys_tensor_maps_and_grids_are_the_templates(name, given, layout):
    kernel_template, dtype = template(name), "bfloat16" if name.startswith("hgemm") else "float32"
    parameters = kernel_template.completed(given)
    shipped = kernel("k", cubin="k", template=kernel_template, parameters=parameters, dtype=dtype, layout=layout)
    library: Any = SimpleNamespace(kernels=(shipped,), dtype=dtype)
    computed = 0
    for m, n, k, odd in itertools.product((4, 256, 1000), (8, 129, 4096), (16, 64), (0, 1)):
        leading = {"lda": 4096 + odd, "ldb": 4096, "ldc": 4096 + 4 * odd}
        shape = {"m": m, "n": n, "k": k, **leading, "dtype": dtype, "layout": layout, "alpha": 1.0, "beta": 0.5}
        instance = Instance(kernel_template, parameters, GemmProblem.of(shape))
        point = {key: shape[key] for key in (*SIZES, *FACTORS)}
        assert fits(shipped, point) is (instance.unmet() is None)
        if not fits(shipped, point):
            continue
        computed += 1
        expected, got = instance.launches, launches(library, 0, point)
        assert set(got.tensor_maps) == set(expected.tensor_maps)
        assert got.workspace == expected.workspace
        for step_launch, step in zip(got.steps, expected.steps, strict=True):
            assert (step_launch.entry, step_launch.block, step_launch.dynamic_shared_bytes) == (
                step.entry,
                step.block,
                step.dynamic_shared_bytes,
            )
            assert (step_launch.grid, step_launch.arguments) == (step.grid, step.arguments)
            assert (step_launch.resident_grid is None) is (step.resident_grid is None)
            if step_launch.resident_grid and step.resident_grid:
                assert [step_launch.resident_grid.of(count) for count in (1, 132, 10_000)] == [
                    step.resident_grid.of(count) for count in (1, 132, 10_000)
                ]
    assert computed >= 10


def written(tmp_path, front):
    (tmp_path / "t.cu.j2").write_text("{#---\nsummary: test data\noperator: gemm\n" + front + "\n---#}\n")
    kernel_template = kernels.load("t.cu.j2", (tmp_path,))
    return made(kernel_template, kernel_template.completed({}), "nt")


SEQUENCE = """parameters:
  split: {type: int, default: 4, help: parts of k}
derived: {parts: split * 2}
launches:
  - {entry: never, when: split == 1, grid: [1], block: [32], arguments: {}}
  - {entry: part, when: "split > 1 and (layout == 'nn' or k % parts == 0)", grid: ["m * parts"], block: [32],
     shared_bytes: 4 * parts if m > 9 else 0, arguments: {m: int32, partial: T*}}
  - {entry: sum, when: split > 1, grid: ["max(m, n)", split], block: [32], arguments: {partial: T*, C: T*}}
workspace:
  partial: {type: T, elements: m * n * parts, zero: true}
"""


def test_parameters_become_numbers_and_what_they_decide_is_decided(tmp_path):
    shipped = written(tmp_path, SEQUENCE)
    part, total = shipped.launches
    assert (part.entry, part.when, part.grid[0], part.shared_bytes) == (
        "part",
        "((k % 8) == 0)",
        "(m * 8)",
        "(32 if (m > 9) else 0)",
    )
    assert (total.when, total.grid) == ("", ("max(m, n)", "4", "1"))
    assert shipped.workspace[0].elements == "((m * n) * 8)"
    assert shipped.workspace[0].dtype == "float32"


def test_tables_of_parameters_are_looked_up_before_a_library_is_written(tmp_path):
    shipped = written(
        tmp_path,
        "parameters:\n  tile: {type: int, default: 64, help: rows}\nrequires:\n"
        '  - {that: \'ldc % (4 if layout in ["tn", "tt"] else {64: 8}[tile]) == 0\', because: of the test}\n'
        "entry: e\ngrid: ['ceil_div(m, {32: 1, 64: 2}[tile])']\nblock: [32]\narguments: {}",
    )
    assert (shipped.requires, shipped.launches[0].grid[0]) == ("((ldc % 8) == 0)", "ceil_div(m, 2)")
    with pytest.raises(UserError, check=coded("syntax", key="{1: 2}[m]", found="what stands at column 1")):
        to_c("{1: 2}[m]")


def test_clusters_that_a_launch_asks_for_are_refused(tmp_path):
    with pytest.raises(UserError, check=coded("unsupported", key="cluster", found="2", line=7)) as caught:
        written(tmp_path, "entry: e\ngrid: [m]\nblock: [32]\ncluster: [2]\narguments: {}")
    assert (caught.value.found, caught.value.at.line) == ("2", 7)


def test_a_name_that_nobody_knows_is_refused_with_its_line(tmp_path):
    with pytest.raises(UserError, check=coded("unsupported", key="grid[0]", found="batch", line=5)) as caught:
        written(tmp_path, "entry: e\ngrid: [batch]\nblock: [32]\narguments: {}")
    assert caught.value.found == "batch"
    assert caught.value.at.line == 5


@pytest.mark.parametrize("expression", ["m / 2", "m ** 2", "m in (1, 2)", "min(m, n, k)", "'a' ~ m", "m|length"])
def test_c_says_what_it_cannot_compute(expression):
    with pytest.raises(UserError, match="cannot compute"):
        to_c(expression)


def expressions():
    leaf = st.sampled_from([*SIZES, "1", "7", "128"])
    numbers = st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from(["+", "-", "*"]), inner).map(lambda t: f"({' '.join(t)})"),
            st.tuples(inner, st.sampled_from(["//", "%"]), st.integers(1, 9)).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
            st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(lambda t: f"{t[0]}({t[1]}, {t[2]})"),
            st.tuples(inner, st.integers(1, 99)).map(lambda t: f"ceil_div({t[0]}, {t[1]})"),
            inner.map(lambda e: f"(-{e})"),
            inner.map(lambda e: f"abs({e})"),
            st.tuples(inner, inner, inner, inner).map(lambda t: f"({t[0]} if {t[1]} < {t[2]} <= 99 else {t[3]})"),
            st.tuples(inner, inner, inner, inner).map(
                lambda t: f"({t[0]} if ({t[1]} == 4 or not {t[2]} >= 5) and {t[3]} != 2 else 3)"
            ),
        ),
        max_leaves=6,
    )
    return st.lists(numbers, min_size=60, max_size=60)


@pytest.mark.skipif(GCC is None, reason="gcc compiles the expressions")
@given(expressions(), st.lists(st.integers(1, 9), min_size=6, max_size=6))
@settings(max_examples=5)
def test_expressions_mean_the_same_in_c(tmp_path_factory, texts, values):
    folder = tmp_path_factory.mktemp("c")
    source = (Path(__file__).parents[2] / "lab/library/templates/library.c.j2").read_text()
    helpers = "\n".join(re.findall(r"^static inline int64_t (?!room).*$", source, re.MULTILINE))
    lines = "\n".join(f'printf("%lld\\n", (long long)({to_c(text)}));' for text in texts)
    members = ", ".join(map(str, values))
    (folder / "x.c").write_text(
        f"#include <stdint.h>\n#include <stdio.h>\nstruct problem {{ int64_t {', '.join(SIZES)}; }};\n{helpers}\n"
        f"int main(void) {{ const struct problem it = {{ {members} }}, *p = &it;\n{lines}\nreturn p == 0; }}\n"
    )
    subprocess.run([known(GCC), "-std=c11", "-o", folder / "x", folder / "x.c"], check=True)
    answers = subprocess.run([folder / "x"], capture_output=True, text=True, check=True).stdout.split()
    point = dict(zip(SIZES, values, strict=True))
    assert [int(answer) for answer in answers] == [at(point, text) for text in texts]


@pytest.mark.parametrize("given", [{}, {"global_split_u": 4, "global_split_u_algorithm": "workspace"}])
@pytest.mark.parametrize("layout", ["nt", "tn"])
def test_a_librarys_launch_of_a_batch_is_the_templates(given, layout):
    kernel_template = template("gemm/tensile.cu.j2")
    parameters = kernel_template.completed(given)
    shipped = kernel(
        "k",
        cubin="k.cubin",
        template=kernel_template,
        parameters=parameters,
        dtype="float32",
        layout=layout,
        batched=True,
    )
    plain = made(kernel_template, parameters, layout)
    assert {name for launch in plain.launches for name, _ in launch.arguments}.isdisjoint(BATCH_SIZES)
    for size in itertools.product((4, 255, 1000), (8, 129), (16, 35), (1, 6)):
        problem = GemmProblem.of(
            {**dict(zip(BATCH_AXES, size, strict=True)), "dtype": "float32", "layout": layout, "beta": 0.5}
        )
        point = {name: problem[name] for name in (*SIZES, *BATCH_SIZES, *FACTORS)}
        expected = Instance(kernel_template, parameters, problem).launches
        launched = [launch for launch in shipped.launches if not launch.when or at(point, launch.when)]
        assert [one.entry for one in launched] == [step.entry for step in expected.steps]
        for launch_spec, step in zip(launched, expected.steps, strict=True):
            assert tuple(at(point, text) for text in launch_spec.grid) == step.grid
            assert launch_spec.arguments == step.arguments
        assert [at(point, one.elements) for one in shipped.workspace] == [
            one.elements for one in expected.workspace if shipped.workspace
        ]
