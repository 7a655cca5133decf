from __future__ import annotations

from pathlib import Path

import pytest

from lab.base import yamlfile
from lab.base.errors import UserError
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
    with pytest.raises(UserError, match="tile"):
        template().rendered({"tile": 8})


def test_without_parameters_a_source_stays_as_it_is():
    assert template().rendered({}) == SOURCE


def test_kernels_are_found_by_any_of_their_names():
    made = template()
    assert [one.name for one in made.kernels] == ["first", "second"]
    assert [one.name for one in made.kernels_named("ours::first<4>")] == ["first"]
    assert [one.name for one in made.kernels_named("first<4>")] == ["first"]
    assert made.kernels_named("third") == ()
    assert template(".version 8.0", "k.ptx").kernels == ()
