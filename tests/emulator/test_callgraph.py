"""Which functions a kernel can call."""

import pytest
from small_ptx import HEADER

from lab.emulator.callgraph import CODE_WINDOW, CallGraph, call_of
from lab.emulator.errors import UnsupportedInstruction
from lab.isa.ptx.module import read_ptx

FUNCTIONS = """.func leaf() { ret; }
.func even() { call odd; ret; }
.func odd() { call even; call leaf; ret; }
.func once() { .reg .b32 %r; call leaf; ret; }
.func spare() { ret; }
"""


def graph(body: str, module: str = FUNCTIONS) -> CallGraph:
    text = f"{HEADER}{module}.entry k() {{ .reg .b64 %f; .reg .b64 pointer;\n{body}\nret; }}"
    read = read_ptx(text)
    return CallGraph(read, read.kernels[0])


def names(call_graph: CallGraph) -> list[str]:
    return [function.name for function in call_graph.functions]


def test_callees_follow_their_callers():
    call_graph = graph("call once;")
    assert names(call_graph) == ["k", "once", "leaf"]
    assert call_graph.recursive == [-1, -1, -1]


def test_functions_that_call_each_other_again_share_a_number():
    call_graph = graph("call even;")
    assert set(names(call_graph)) == {"k", "even", "odd", "leaf"}
    at = {name: i for i, name in enumerate(names(call_graph))}
    assert call_graph.again(at["even"], at["odd"])
    assert call_graph.again(at["odd"], at["even"])
    assert not call_graph.again(at["odd"], at["leaf"])
    assert not call_graph.again(at["k"], at["even"])


def test_an_indirect_call_reaches_what_its_table_names():
    call_graph = graph("mov.b64 %f, leaf; T: .calltargets leaf, once; call %f, T;")
    assert names(call_graph)[0] == "k"
    assert set(names(call_graph)) == {"k", "leaf", "once"}


@pytest.mark.parametrize("register", ["%f", "pointer"])
def test_an_indirect_call_with_a_prototype_reaches_every_function_whose_address_is_taken(register):
    call_graph = graph(f"mov.b64 {register}, once; P: .callprototype ()_ (); call {register}, P;")
    assert set(names(call_graph)) == {"k", "once", "leaf"}
    table = ".global .align 8 .u64 table[2] = {spare, generic(leaf)};\n"
    call_graph = graph(
        f"ld.global.b64 {register}, [table]; P: .callprototype ()_ (); call {register}, P;", FUNCTIONS + table
    )
    assert set(names(call_graph)) == {"k", "spare", "leaf"}


def test_addresses_are_those_of_the_module():
    call_graph = graph("call leaf;")
    assert call_graph.address("leaf") == CODE_WINDOW + 16
    assert call_graph.address("spare") == CODE_WINDOW + 5 * 16
    assert call_graph.address("nothing") is None


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("nothing", "nothing is not defined in this PTX"),
        ("malloc", "malloc needs the device's heap"),
        ("cudaLaunchDeviceV2", "dynamic parallelism"),
    ],
)
def test_a_function_that_is_not_there_is_refused_with_its_line(name, why):
    with pytest.raises(UnsupportedInstruction, match=f"PTX line 10: .*{why}"):
        graph(f"call {name};")


def test_what_a_call_says():
    read = read_ptx(
        HEADER + ".func f() { .reg .b64 %d; .param .b32 a; .param .b32 b; P: .callprototype (.param .b32 _) _ "
        "(.param .b32 _); call (a), %d, (b), P; call.uni g; call g, (a, 3); add.u64 %d, %d, 1; }"
    )
    calls = [call_of(instruction) for instruction in read.functions[0].instructions]
    assert calls[3] is None
    assert calls[0] is not None
    assert (calls[0].target, calls[0].results, calls[0].arguments, calls[0].listed) == ("%d", ("a",), ("b",), "P")
    assert calls[1] is not None
    assert (calls[1].target, calls[1].results, calls[1].arguments) == ("g", (), ())
    assert calls[2] is not None
    assert calls[2].arguments == ("a", "3")


@pytest.mark.parametrize("operands", ["(%f)", "(%f), (%f)", "3", "[%f]"])
def test_a_call_of_no_function_is_refused(operands):
    with pytest.raises(UnsupportedInstruction, match="a call without a function or register"):
        graph(f"call {operands};")


def test_initialisers_name_functions_only_for_indirect_calls():
    table = ".global .align 8 .u64 table[2] = {spare, generic(leaf)};\n"
    assert names(graph("call leaf;", FUNCTIONS + table)) == ["k", "leaf"]


def test_a_function_that_calls_itself_is_recursive():
    call_graph = graph("call self;", ".func self() { call self; ret; }\n")
    assert call_graph.again(1, 1)
    assert not call_graph.again(0, 1)
    assert not graph("call once;").again(0, 1)


def test_a_call_without_operands_is_refused():
    with pytest.raises(UnsupportedInstruction, match="a call without a function or register"):
        graph("call;")
    with pytest.raises(UnsupportedInstruction, match="a call without a function or register"):
        graph("call %f, T, T;")
