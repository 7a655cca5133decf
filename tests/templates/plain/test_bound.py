from __future__ import annotations

from lab.templates.launches import Launch
from lab.templates.plain.bound import BoundArgument, Source, passed

BOUND = (
    BoundArgument("c", Source.ARRAY, "C", is_written=True),
    BoundArgument("count", Source.SCALAR, "n"),
    BoundArgument("twice", Source.EXPRESSION, "2 * n"),
)


def test_launches_call_arguments_as_the_operator_does():
    taken = (("c", "float32*"), ("count", "int32"), ("twice", "int64"), ("room", "float32*"))
    found = passed(Launch("k", (1, 1, 1), (1, 1, 1), 0, taken), BOUND)
    assert found.arguments == (("C", "float32*"), ("n", "int32"), ("kernel.twice", "int64"), ("room", "float32*"))


def test_members_of_structures_have_names_of_their_own():
    found = passed(Launch("k", (1, 1, 1), (1, 1, 1), 0, (("c", "struct(float32* c, int32 count)"),)), BOUND)
    assert found.arguments == (("c", "struct(float32* C, int32 n)"),)
