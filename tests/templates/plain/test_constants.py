from __future__ import annotations

from pathlib import Path

import pytest

from lab.base.yamlfile import parse
from lab.templates.front_matter import FrontMatter
from lab.templates.plain.constants import constants_error
from lab.templates.plain.template import PlainTemplate
from lab.toolchain.symbols import ConstantVariable

SOURCE = """
#define N 9
__constant__ float filter[N];
static __constant__ const unsigned int table[4] = {1, 2, 3, 4};
#if USE_SCALE
__constant__ double scale;
#endif
"""
FOUND = {"filter": ConstantVariable("_Z6filter", 36), "table": ConstantVariable("table", 16)}


def error_of(**constants):
    document = parse("source: k.cu\nconstants: {filter: x}\n", "k.yaml")
    declares = FrontMatter(summary="s", operator="declared", entry="k", grid=[1], block=[1], arguments={"n": "int32"})
    memory = tuple((name, dtype) for name, (dtype, _) in constants.items())
    template = PlainTemplate("k.cu", Path("k.cu"), declares, document, (), SOURCE, frozenset(), memory)
    return constants_error(template, FOUND, {name: size for name, (_, size) in constants.items()})


@pytest.mark.parametrize(
    "constants",
    [
        {},
        {"filter": ("float32", 36)},
        {"filter": ("float32", 20)},  # the first five of nine
        {"table": ("int32", 16)},
        {"scale": ("float64", 8)},  # of other variants
    ],
)
def test_what_fits(constants):
    assert error_of(**constants) is None


@pytest.mark.parametrize(
    ("constants", "words"),
    [
        ({"filter": ("float32", 40)}, ("k.yaml:2", "has 36 bytes", "40 bytes", "at most 36 bytes")),
        ({"filter": ("float64", 32)}, ("constant memory is float", "accepted: float32")),
        ({"fliter": ("float32", 36)}, ("no such variable", "accepted: filter, table", "did you mean 'filter'?")),
    ],
)
def test_what_does_not_fit(constants, words):
    error = str(error_of(**constants))
    assert all(word in error for word in words), error
