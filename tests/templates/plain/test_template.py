from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from mistakes import coded

from lab.base import yamlfile
from lab.base.errors import UserError
from lab.isa.cuda.tokens import live_tokens
from lab.templates.front_matter import FrontMatter
from lab.templates.plain.template import PlainTemplate

SOURCE = """namespace ours { template <int width> __global__ void first(float *c) { c[width] = rows; } }
__global__ void second(float *c) { int tile = 3; c[tile] = rows; }
"""


def template(text=SOURCE, name="k.cu", instantiated=()):
    declares = FrontMatter.model_validate({"summary": "s", "operator": "declared", "entry": "k"})
    document = yamlfile.parse("source: k.cu\n", "k.yaml")
    return PlainTemplate(name, Path(name), declares, document, (), text, frozenset(instantiated))


def test_parameters_are_macros_in_front_of_the_source():
    rendered = template().rendered({"rows": 4, "fast": True})
    assert rendered.startswith("#define rows 4\n#define fast 1\n#line 1")
    assert rendered.endswith(SOURCE)


def test_a_parameter_of_an_instantiation_is_no_macro_where_the_source_declares_the_name():
    assert "#define tile" not in template(instantiated=["tile"]).rendered({"tile": 8, "rows": 1})
    assert "#define rows 1" in template(instantiated=["rows"]).rendered({"rows": 1})
    with pytest.raises(UserError, check=coded("conflict", key="parameters.tile", line=2)):
        template().rendered({"tile": 8})


def test_a_parameter_of_a_template_in_a_header_is_no_macro(tmp_path):
    kernel = "template <const int TILE> __global__ void first(float *c) { c[TILE] = rows; }\n"
    (tmp_path / "first.cuh").write_text(kernel)
    made = replace(template('#include "first.cuh"\n', instantiated=["TILE"]), roots=(tmp_path,))
    text, included = made.unit({"TILE": 8, "rows": 2}, device_only=True)
    assert "#define rows 2" in text
    assert "TILE 8" not in text
    assert "const int TILE>" in included["first.cuh"]


def test_ptx_stays_as_it_is_whatever_the_launch_sweeps():
    assert template(".version 8.0\n", "k.ptx").unit({"threads": 64}, device_only=True) == (".version 8.0\n", {})


def test_without_parameters_a_source_stays_as_it_is():
    assert template().rendered({}) == SOURCE


def test_kernels_are_found_by_any_of_their_names():
    made = template()
    assert [kernel.name for kernel in made.kernels] == ["first", "second"]
    assert [one.name for one in made.kernels_named("ours::first<4>")] == ["first"]
    assert [one.name for one in made.kernels_named("first<4>")] == ["first"]
    assert made.kernels_named("third") == ()
    assert template(".version 8.0", "k.ptx").kernels == ()


def test_the_parameters_of_a_sweep_do_not_make_the_source_be_read_again():
    made = template("__global__ void f(float* a) { a[threadIdx.x] = unit_n * M_PI; }")
    made.unit({"unit_n": 0}, device_only=True)
    read = live_tokens.cache_info().misses
    for number in range(1, 20):
        text, _ = made.unit({"unit_n": number}, device_only=True)
        assert f"#define unit_n {number}\n" in text
        assert text.startswith("#include <")
    # the lines that define the macros alone, which are others each time
    assert live_tokens.cache_info().misses - read <= 2 * 19
