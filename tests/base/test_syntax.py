from __future__ import annotations

from lab.base.parser import parse
from lab.base.syntax import Binary, Constant, NameOf, children, functions, names, walk


def test_names_are_those_that_are_read_and_functions_those_that_are_called():
    part = parse("max(a, b.c) + d[e:f, 1] * (g if h else [i]) ~ {j: k}[x] | join(y=z) < -n and mapping.f(o)")
    assert names(part) == {*"abdefghijkx", "z", "n", "mapping", "o"}
    assert functions(part) == {"max", "join"}


def test_parts_come_in_the_order_in_which_they_are_written():
    part = parse("a + b * 2")
    assert [type(one) for one in walk(part)] == [Binary, NameOf, Binary, NameOf, Constant]
    assert [one.column for one in children(part)] == [1, 7]
