"""Index and guard as CUDA: compiled by NVRTC, executed by the emulator, held against the map."""

from __future__ import annotations

import re

import numpy as np
import pytest
from compiling import ptx_of
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from mappings import mappings

from lab.emulator.api import launch
from lab.isa.ptx.module import read_ptx
from lab.templates.mapping.text import parse

KERNEL = """
extern "C" __global__ void kernel_{number}(int *out, int n)
{{
    const int t = threadIdx.x;
    for (int i = 0; i < {items}; ++i) {{
        const int e = {index};
        if ({guard}) out[e] = 1000 * t + i;
    }}
}}
"""


def source(number, mapping):
    guard = mapping.guard("i", also="e < n")
    return KERNEL.format(number=number, items=mapping.items, index=mapping.index("i"), guard=guard)


@given(st.lists(st.tuples(mappings(), st.integers(1, 200)), min_size=40, max_size=40))
# one compilation an example; shrinking would compile for minutes, and the message names the mapping
@settings(max_examples=5, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
def test_the_generated_code_touches_what_the_map_says(cases):
    text = "".join(source(number, mapping) for number, (mapping, _) in enumerate(cases))
    module = read_ptx(ptx_of(text))
    for number, (mapping, length) in enumerate(cases):
        out = np.full(length, -1, np.int32)
        done = launch(module, f"kernel_{number}", 1, mapping.threads, [out, length])
        assert done.clean, str(mapping)
        expected = np.full(length, -1)
        threads, items = np.nonzero((mapping.elements >= 0) & (mapping.elements < length))
        expected[mapping.elements[threads, items]] = 1000 * threads + items
        assert out.tolist() == expected.tolist(), str(mapping)


@given(mappings())
def test_python_reads_the_expressions_alike(mapping):
    index, guard = (
        compile(text.replace("/", "//").replace("&&", "and").replace("true", "True"), "expression", "eval")
        for text in (mapping.index("x", "y"), mapping.guard("x", "y"))
    )
    for thread in range(mapping.threads):
        for item in range(mapping.items):
            names = {"x": item, "y": thread}
            element = eval(index, names) if eval(guard, names) else -1  # noqa: S307 - our own arithmetic
            assert element == mapping.elements[thread, item]


@given(mappings())
def test_powers_of_two_need_no_division(mapping):
    text = mapping.index() + mapping.guard()
    sizes = [size for d in mapping.layout for size in (d.size, d.extent)] + [axis.extent for axis in mapping.axes]
    if all(size & (size - 1) == 0 for size in sizes):
        assert not re.search(r"[/%*]", text)


@pytest.mark.parametrize(
    ("text", "index", "guard"),
    [
        ("[1] | [1] => [i0, t0]", "0", "true"),
        ("[1] | [1] => [i0, t0], offset: 3", "3", "true"),
        ("[1] | [256] => [i0, t0]", "t", "true"),
        ("[1] | [16, 16] => [t0, i0, t1]", "t", "true"),
        ("[1] | [16, 16] => [-t0, -t1, i0]", "(255 - t)", "true"),
        ("[4, 4] | [256] => [i0, t0, i1]", "((i & 3) + (t << 2) + ((i >> 2) << 10))", "true"),
        ("[3] | [5] => [i0, t0]", "(i + t * 3)", "true"),
        ("[3, 5] | [2] => [t0, i1, i0]", "(t + ((i / 3) << 1) + (i % 3) * 10)", "true"),
        ("[3] | [2, (2, 1)] => [i0, t0, t1]", "(i + t * 3)", "t < 2"),
        ("[1, 3] | [(4, 2), 2] => [i0, t0, t1, i1]", "((t & 3) + ((t >> 2) << 1) + (i << 2))", "(t & 3) < 2"),
        ("[(3, 4)] | [2, 2] => [i0, t0, t1]", "(i + (t << 2))", "true"),
        ("[3] | [2, (4, 2)] => [i0, t0, -t1]", "(i + (t & 1) * 3 + (1 - (t >> 1)) * 6)", "(t >> 1) < 2"),
        ("[(3, 4)] | [2] => [-i0, t0]", "((3 - i) + (t << 2))", "true"),
        ("[(1, 4)] | [2] => [-i0, t0], offset: 5", "((t << 2) + 8)", "true"),
        (
            "[3, 2] | [2, 2] => [(t0, i0: 5), t1, i1]",
            "((t & 1) + ((i % 3) << 1) + (t >> 1) * 5 + (i / 3) * 10)",
            "((t & 1) + ((i % 3) << 1)) < 5",
        ),
        ("[4] | [8] => [(i0, t0: 30)]", "(i + (t << 2))", "(i + (t << 2)) < 30"),
    ],
)
def test_expressions_are_no_longer_than_they_need_be(text, index, guard):
    mapping = parse(text)
    assert (mapping.index(), mapping.guard()) == (index, guard)
    assert mapping.guard(also="e < n") == ("e < n" if guard == "true" else f"{guard} && e < n")


def test_a_tuple_of_local_indices_needs_no_division():
    mapping = parse("[3, 5, 2] | [4] => [t0, i2, (i0, -i1: 12)]")
    names = ("x", "y", "z")
    assert mapping.index(names) == "(t + (z << 2) + (x << 3) + (4 - y) * 24)"
    assert mapping.guard(names) == "(x + (4 - y) * 3) < 12"


@given(mappings())
def test_a_tuple_names_the_element_of_its_linear_index(mapping):
    local = mapping.of_kind("i")
    names = tuple(f"x{d.number}" for d in local)
    index, guard = (
        compile(text.replace("/", "//").replace("&&", "and").replace("true", "True"), "expression", "eval")
        for text in (mapping.index(names, "y"), mapping.guard(names, "y"))
    )
    for digits in np.ndindex(*(d.size for d in local)):
        item = int(np.ravel_multi_index(digits, [d.size for d in local], order="F"))
        for thread in range(mapping.threads):
            values = dict(zip(names, digits, strict=True)) | {"y": thread}
            element = eval(index, values) if eval(guard, values) else -1  # noqa: S307 - our own arithmetic
            assert element == mapping.elements[thread, item]


@given(mappings())
def test_without_the_guard_the_index_is_what_the_model_says(mapping):
    index = compile(mapping.index("x", "y").replace("/", "//"), "expression", "eval")
    for (thread, item), element in np.ndenumerate(mapping.unguarded):
        assert eval(index, {"x": item, "y": thread}) == element  # noqa: S307 - our own arithmetic
