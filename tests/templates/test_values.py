from __future__ import annotations

import json
import pickle

import pytest
from mistakes import coded

from lab.base.errors import Location, UserError
from lab.base.expressions import evaluate
from lab.base.facts import OperandError
from lab.templates.mapping.text import parse
from lab.templates.values import EinsumFacts, MappingFacts, packed, unpacked

CYCLIC = MappingFacts("cyclic(width=4)")
FOLDED = EinsumFacts("ilk,jlk->ijk")


def value(expression, **names):
    return evaluate(expression, {"mapping": CYCLIC, "folded": FOLDED, **names}, at=Location("e.yaml", 7), key="k")


def test_a_mappings_facts_are_those_of_the_mapping():
    mapping = parse(CYCLIC.text)
    assert value("join([mapping.threads, mapping.items, mapping.size, mapping.offset], ' ')") == "256 16 4096 0"
    assert value("mapping.complete and mapping.injective and not mapping.guarded and mapping.vectors(4)") is True
    assert value("mapping.widest(16 // 4)") == 4
    assert value("mapping.requests(vector=4)") == mapping.requests(4)
    assert value("mapping.sectors(4, 4, row=64, transposed=true)") == mapping.sectors(4, 4, row=64, transposed=True)
    shared = mapping.conflicts(4, row=32, pitch=33, loads=False)
    assert value("mapping.conflicts(4, row=32, pitch=33, loads=false)") == shared
    assert value("mapping.index('e', 'u') ~ mapping.guard(also='e < n')") == mapping.index("e", "u") + "e < n"
    assert str(CYCLIC) == str(mapping)


def test_a_mapping_has_an_index_of_each_local_dimension_and_a_scope():
    mapping = parse(CYCLIC.text)
    assert value("mapping.index(['j', 'k'], 'u')") == mapping.index(("j", "k"), "u")
    assert value("mapping.guard(['j', 'k'], also='j < n')") == "j < n"
    assert value("mapping.scope") == ""
    assert value("block.scope", block=MappingFacts("thread in block: cyclic")) == "thread in block"
    for wrong in ("['j']", "['j', 2]", "[]", "3"):
        with pytest.raises(UserError, check=coded("unsupported", key="k", line=7)):
            value(f"mapping.index({wrong})")


def test_an_einsums_facts_are_those_of_the_einsum():
    assert value("folded.arguments | join(' ')") == " ".join(FOLDED.read(FOLDED.text).arguments)
    assert value("folded.first ~ folded.second ~ join(folded.rows + folded.columns + folded.depth)") == "ABijl"
    assert value("folded.place('e', folded.rows, 'C')") == "e * stride_C_i"
    assert value("folded.digit(3, folded.rows, 'i') ~ folded.stride('A', 'l')") == "3stride_A_l"
    assert value("folded.vectors('A') and not folded.along_depth('A') and folded.of('B')[0] == 'j'") is True


@pytest.mark.parametrize(
    "expression",
    [
        "mapping.elements",
        "mapping.elements.ravel()[:1].tofile('altair.py', '', '%s') or true",
        "mapping.elements.fill(0)",
        "mapping.access_map()",
        "mapping.layout[0].size",
        "mapping.of_kind('i')",
        "mapping.__class__.__init__.__globals__",
        "mapping.__dict__",
        "mapping.text",
        "mapping.read('x')",
        "mapping['elements']",
        "mapping.index.__func__",
        "mapping.index('i' , 't', also='x')",
        "mapping.index(thread=3)",
        "mapping.index(long)",
        "mapping.vectors(0)",
        "mapping.vectors(true)",
        "mapping.widest('4')",
        "mapping.sectors()",
        "mapping.sectors(0)",
        "mapping.sectors(4, 1000000)",
        "mapping.sectors(4, 0)",
        "mapping.sectors(4, row=0)",
        "mapping.sectors(4611686018427387904)",
        "mapping.sectors(4, transposed=1)",
        "mapping.conflicts(4)",
        "mapping.conflicts(4, row=32, pitch=-1)",
        "mapping.requests(-1)",
        "folded.A.index('i')",
        "folded.of('D')",
        "folded.folded()",
        "folded.along_depth('C')",
        "folded.place('e', ['x'], 'A')",
        "folded.place(long, folded.rows, 'A')",
        "folded.digit('e', folded.rows, 'k')",
        "folded.digit(1.5, folded.rows, 'i')",
        "folded.stride('A', '; system(1)')",
    ],
)
def test_nothing_else_can_be_reached(expression):
    with pytest.raises(UserError, check=coded("unsupported", key="k", line=7)) as caught:
        value(f"{expression} and true", long="x" * 9000)
    assert (caught.value.at, caught.value.key) == (Location("e.yaml", 7), "k")


def test_an_error_of_a_fact_lists_what_there_is():
    with pytest.raises(UserError, check=coded("unsupported", key="k", found="mapping.element", line=7)) as caught:
        value("mapping.element")
    assert "threads, items, size" in caught.value.accepted
    assert "elements" not in caught.value.accepted


@pytest.mark.parametrize("one", [CYCLIC, FOLDED, 3, 1.5, True, "a", None, 2**63])
def test_values_travel_as_json_and_as_pickles(one):
    again = unpacked(json.loads(json.dumps(packed(one))))
    assert (again, type(again)) == (one, type(one))
    assert pickle.loads(pickle.dumps(one)) == one  # noqa: S301 - made here


def test_nothing_else_travels():
    with pytest.raises(UserError, check=coded("unknown-name", found="object")):
        packed(object())


def test_a_mapping_that_cannot_be_read_is_a_mistake():
    with pytest.raises(UserError, check=coded("syntax", found="nonsense")):
        MappingFacts("nonsense").fact("size")
    with pytest.raises(OperandError, match="has no fact"):
        FOLDED.fact("size")
