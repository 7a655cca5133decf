from __future__ import annotations

import pytest
from mistakes import coded

from lab.base.errors import Location, UserError
from lab.isa.cuda.kernels import read_kernels
from lab.templates.plain.entry import choose, expression

SOURCE = """namespace ns { template <typename T, int block, bool fast = true> __global__ void add(T *x) {} }
__global__ void plain(float *x) {}
__global__ void twice(float *x) {}
__global__ void twice(int *x) {}
"""
KERNELS = read_kernels(SOURCE)
ADD = KERNELS[0]
AT = Location("e.yaml", 3)


def test_the_only_kernel_needs_no_name():
    only = read_kernels("__global__ void k() {}")
    assert choose(only, None) == only
    assert expression(only[0], None, {}) == "k"


def test_several_kernels_need_one():
    with pytest.raises(UserError, check=coded("duplicate", key="kernel", line=3)) as caught:
        choose(KERNELS, None, at=AT)
    assert caught.value.accepted == "ns::add<T, block, fast>, plain, twice"
    assert str(caught.value).startswith("e.yaml:3: ")
    with pytest.raises(UserError, check=coded("duplicate", key="kernel")):
        choose((), None)


def test_names():
    assert choose(KERNELS, "plain") == (KERNELS[1],)
    assert choose(KERNELS, " ::ns::add < float, {block}>") == (ADD,)
    assert choose(KERNELS, "twice") == KERNELS[2:]
    assert choose((), "made_by_a_macro") == ()


@pytest.mark.parametrize(
    ("wanted", "suggestion"),
    [("add", "did you mean 'ns::add'?"), ("plan", "did you mean 'plain'?"), ("xyz", None)],
)
def test_wrong_names(wanted, suggestion):
    with pytest.raises(UserError, check=coded("unknown-name", key="kernel")) as caught:
        choose(KERNELS, wanted)
    assert caught.value.suggestion == suggestion
    assert "ns::add<T, block, fast>" in caught.value.accepted


@pytest.mark.parametrize(
    ("wanted", "parameters", "written"),
    [
        ("ns::add<float, {block}>", {"block": 128}, "ns::add<float, 128>"),
        (
            "ns::add<{T}, { block }, {fast}>",
            {"block": 128, "T": "double", "fast": False},
            "ns::add<double, 128, false>",
        ),
        ("ns::add", {"block": 128, "T": "float"}, "ns::add<float, 128>"),
        (None, {"block": 64, "T": "float", "fast": True}, "ns::add<float, 64, true>"),
    ],
)
def test_templates(wanted, parameters, written):
    assert expression(ADD, wanted, parameters) == written


def test_a_kernel_that_a_macro_writes_is_named_as_it_is():
    assert expression(None, "made<{n}>", {"n": 3}) == "made<3>"
    with pytest.raises(UserError, check=coded("nothing-left", key="kernel")):
        expression(None, None, {})


@pytest.mark.parametrize(
    ("wanted", "parameters", "words"),
    [
        ("ns::add<float, {blok}>", {"block": 1}, "parameter that does not exist"),
        ("ns::add", {"block": 1}, "nothing says what stands for T"),
        ("ns::add", {"T": "float"}, "nothing says what stands for block"),
    ],
)
def test_templates_that_lack_an_argument(wanted, parameters, words):
    with pytest.raises(UserError, match=words):
        expression(ADD, wanted, parameters, at=AT)


def test_a_gap_among_defaults_is_an_error():
    [kernel] = read_kernels("template <int a = 1, int b = 2> __global__ void k() {}")
    assert expression(kernel, None, {}) == "k<>"
    assert expression(kernel, None, {"a": 3}) == "k<3>"
    with pytest.raises(UserError, check=coded("missing-key", key="kernel", found="k<a, b>")):
        expression(kernel, None, {"b": 3})
