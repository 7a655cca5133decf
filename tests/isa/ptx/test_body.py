"""Bodies of functions: guards, labels, branch targets, source lines, nested scopes."""

from __future__ import annotations

import pytest

from lab.base.errors import ReaderError
from lab.isa.model import Function
from lab.isa.ptx.module import read_ptx

HEAD = ".version 8.5\n.target sm_90a, debug\n.address_size 64\n"


def body(text: str) -> Function:
    (function,) = read_ptx(f"{HEAD}.entry k(.param .u64 a) {{\n{text}\n}}").functions
    return function


def test_predicates() -> None:
    kernel = body("@%p1 ret; @!%p2 ret; @ !\n p ret; ret;")
    assert [(i.predicate, i.negated, i.falls_through) for i in kernel.instructions] == [
        ("%p1", False, True),
        ("%p2", True, True),
        ("p", True, True),
        (None, False, False),
    ]


def test_label_and_instruction_on_one_line() -> None:
    kernel = body("$L__BB0_3: add.s32 %r1, %r1, 1; @%p bra $L__BB0_3; bra.uni END; L2: END:")
    assert kernel.labels == {"$L__BB0_3": 0, "L2": 3, "END": 3}
    assert [i.targets for i in kernel.instructions] == [(), (0,), (3,)]
    assert [i.falls_through for i in kernel.instructions] == [True, True, False]


def test_indexed_branch() -> None:
    kernel = body("ts: .branchtargets A, B, A;\nbrx.idx.uni %r1, ts; A: ret; B: exit;")
    assert kernel.tables == {"ts": ("A", "B", "A")}
    assert kernel.instructions[0].targets == (1, 2)
    assert "ts" not in kernel.labels


def test_call_tables_and_prototypes() -> None:
    kernel = body(
        "{ proto_0 : .callprototype (.param .b32 _) _ (.param .b64 _, .param .b32 _) .noreturn;\n"
        "fs: .calltargets f, g;\n call (%r1), %rd1, (%r2), fs; call (%r1), %rd1, (%r2), proto_0; }"
    )
    assert kernel.tables == {"fs$1": ("f", "g")}
    assert [i.operands[-1] for i in kernel.instructions] == ["fs$1", "proto_0$1"]


def test_source_locations() -> None:
    text = (
        f"{HEAD}.entry k() {{ .loc 1 4 2\n ret; .loc 1 0 0\n ret;\n"
        ".loc 2 9 1, function_name $L__info_string0+4, inlined_at 1 4 2\n ret; .loc 3 5 1 ret; }\n"
        '.file 1 "a.cu"\n.file 2 "b.h", 1234, 56\n'
    )
    (kernel,) = read_ptx(text).functions
    found = [i.source and (i.source.file, i.source.line) for i in kernel.instructions]
    assert found == [("a.cu", 4), None, ("b.h", 9), ("file 3", 5)]


def test_calls_that_were_inlined_are_followed_to_the_outermost() -> None:
    text = (
        f"{HEAD}.entry k() {{ .loc 1 4 2\n nop; .loc 2 9 1, function_name $L__info_string0, inlined_at 1 4 2\n nop;\n"
        ".loc 2 30 5, function_name $L__info_string1, inlined_at 2 9 1\n nop; .loc 1 5 2\n"
        ".loc 2 9 1, function_name $L__info_string0, inlined_at 1 5 2\n nop; ret; }\n"
        '.file 1 "a.cu"\n.file 2 "b.h"\n'
    )
    (kernel,) = read_ptx(text).functions
    found = [[(call.file, call.line) for call in one.callers] for one in kernel.instructions[:4]]
    assert found == [[], [("a.cu", 4)], [("b.h", 9), ("a.cu", 4)], [("a.cu", 5)]]


def test_calls_that_name_themselves_end() -> None:
    line = ".loc 1 4 2, function_name $L__info_string0, inlined_at 1 4 2\n nop;\n"
    (kernel,) = read_ptx(f'{HEAD}.entry k() {{ {line * 300} ret; }}\n.file 1 "a.cu"\n').functions
    assert len(kernel.instructions[-1].callers) <= 100


def test_nested_scopes_have_names_of_their_own() -> None:
    kernel = body(
        ".reg .pred p; .reg .b32 r;\n"
        "{ .reg .pred p; W: setp.eq.s32 p, r, 0; @p bra W; { .reg .b32 r; mov.b32 r, 1; @!p bra W; } }\n"
        "{ .reg .pred p; W: setp.eq.s32 p, r, 1; @!p bra D; bra W; D: }\n"
        "@p bra E; E: ret;"
    )
    assert [(i.predicate, i.operands) for i in kernel.instructions] == [
        (None, ("p$1", "r", "0")),
        ("p$1", ("W$1",)),
        (None, ("r$2", "1")),
        ("p$1", ("W$1",)),
        (None, ("p$3", "r", "1")),
        ("p$3", ("D$3",)),
        (None, ("W$3",)),
        ("p", ("E",)),
        (None, ()),
    ]
    assert kernel.labels == {"W$1": 0, "W$3": 4, "D$3": 7, "E": 8}
    assert [variable.name for variable in kernel.variables] == ["p", "r", "p$1", "r$2", "p$3"]
    assert kernel.instructions[3].targets == (0,)


def test_a_name_is_the_outer_one_until_it_is_declared() -> None:
    kernel = body(".reg .b32 r; { mov.b32 r, 1; .reg .b32 r; mov.b32 r, 2; }")
    assert [i.operands[0] for i in kernel.instructions] == ["r", "r$1"]


def test_numbered_registers_in_a_scope() -> None:
    kernel = body(".reg .b32 %r<9>; { .reg .b32 %r<3>; add.s32 %r2, %r3, %r0; st.shared.b32 [%r1+4], {%r2, %r8}; }")
    assert kernel.instructions[0].operands == ("%r$1$2", "%r3", "%r$1$0")
    assert kernel.instructions[1].operands == ("[%r$1$1+4]", "{%r$1$2, %r8}")
    assert kernel.variables[1].name == "%r$1$"
    assert (kernel.variables[1].parameterised, kernel.variables[1].count) == (True, 3)


def test_a_unique_name_meets_no_other() -> None:
    kernel = body(".reg .pred p, p$1; { .reg .pred p; @p ret; } p$2: ret; { { .reg .pred q; } }")
    names = [variable.name for variable in kernel.variables]
    assert len(set(names)) == len(names)
    assert kernel.instructions[0].predicate == "p$1$"


def test_parts_of_other_words_are_not_renamed() -> None:
    kernel = body("{ .reg .b32 x, f; .reg .b32 %tid; mov.u32 x, %v.x; mov.f32 f, 0f00000000; }")
    assert [i.operands for i in kernel.instructions] == [("x$1", "%v.x"), ("f$1", "0f00000000")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bra NOWHERE;", "k.ptx:5: there is no label NOWHERE in this scope"),
        ("{ L: }\nbra L;", "k.ptx:6: there is no label L in this scope"),
        ("brx.idx %r1, nowhere;", "k.ptx:5: there is no table of branch targets nowhere"),
        ("L:\nL: ret;", "k.ptx:6: label L is defined twice"),
        ("bra;", "k.ptx:5: bra has no target"),
        ("add.s32 %r1,, %r2;", "k.ptx:5: the operands of add.s32 cannot be read"),
        ("T: .branchtargets A;\nret;", "k.ptx:5: there is no label A in this scope"),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(ReaderError) as caught:
        read_ptx(f"{HEAD}.entry k() {{\n{text}\n}}", "k.ptx")
    assert str(caught.value) == message


def test_a_branch_takes_its_target_from_the_last_operand() -> None:
    kernel = body("A: mov.b32 r, 1; B: bra A, B; @p brx.idx r, T; T: .branchtargets B, A;")
    assert kernel.instructions[1].operands == ("A", "B")
    assert kernel.instructions[1].targets == (1,)
    assert (kernel.instructions[2].targets, kernel.instructions[2].falls_through) == ((1, 0), True)


def test_a_table_may_name_labels_of_an_outer_scope() -> None:
    kernel = body("A: ret; { T: .branchtargets A, B; brx.idx r, T; B: ret; }")
    assert kernel.tables == {"T$1": ("A", "B$1")}
    assert kernel.instructions[1].targets == (0, 2)
    assert kernel.instructions[1].operands == ("r", "T$1")


def test_a_table_without_a_label_of_its_own_scope() -> None:
    kernel = body("T: .branchtargets A; { brx.idx r, T; A: ret; } A: ret;")
    assert kernel.instructions[0].targets == (2,)
    assert kernel.labels == {"A$1": 1, "A": 2}


@pytest.mark.parametrize("word", ["branchtargets A;", "calltargets f;", "callprototype _ ();"])
def test_a_table_needs_a_label_directly_before_it(word: str) -> None:
    for before in ("", "A: ret;", "A: {} ", "A: { } "):
        with pytest.raises(ReaderError, match="unknown directive"):
            body(f"{before} .{word}")


def test_a_pragma_or_a_location_may_stand_between_a_label_and_its_table() -> None:
    assert body('T: .pragma "x", "y"; .loc 1 1 1 .branchtargets A; A: ret;').tables == {"T": ("A",)}


def test_calls_know_names_and_labels() -> None:
    kernel = body("{ P: .callprototype _ (); call f, P; @p call g; } exit; @p trap;")
    assert [one.operands for one in kernel.instructions[:2]] == [("f", "P$1"), ("g",)]
    assert [(instruction.falls_through, instruction.targets) for instruction in kernel.instructions] == [
        *((True, ()), (True, ()), (False, ()), (True, ()))
    ]


def test_numbered_registers_at_the_end_of_their_range() -> None:
    kernel = body("{ .reg .b32 %r<10>; add.s32 %r9, %r10, %r09; mov.b32 %r9999999999, %r; mov.b32 %r0, %rd1; }")
    assert [instruction.operands for instruction in kernel.instructions] == [
        ("%r$1$9", "%r10", "%r09"), ("%r9999999999", "%r"), ("%r$1$0", "%rd1"),
    ]  # fmt: skip
    many = body("{ .reg .b32 %r<1000000000>; mov.b32 %r999999999, %r0; }")
    assert many.instructions[0].operands == ("%r$1$999999999", "%r$1$0")


def test_scopes_within_scopes_find_the_nearest_name() -> None:
    kernel = body("{ .reg .b32 %r<4>, a; { .reg .b32 %r<2>; mov.b32 %r1, %r3; mov.b32 a, %r0; } @a mov.b32 a, %r1; }")
    assert [instruction.operands for instruction in kernel.instructions] == [
        ("%r$2$1", "%r$1$3"), ("a$1", "%r$2$0"), ("a$1", "%r$1$1"),
    ]  # fmt: skip
    assert kernel.instructions[2].predicate == "a$1"
    after = body("{ .reg .b32 a; } { mov.b32 a, 1; } { .reg .b32 a; mov.b32 a, 1; }")
    assert [instruction.operands[0] for instruction in after.instructions] == ["a", "a$3"]


def test_names_of_parameters_are_taken() -> None:
    (function,) = read_ptx(f"{HEAD}.func (.reg .b32 b$1) f(.reg .b32 a$1) {{ {{ .reg .b32 a, b; }} }}").functions
    assert [variable.name for variable in function.variables] == ["a$1$", "b$1$"]


def test_blanks_within_an_opcode_and_lines_of_instructions() -> None:
    kernel = body("add\n .s32\t.x a, b;\n\n  @p\n ret;")
    assert [
        (instruction.index, instruction.opcode, instruction.line, instruction.operands)
        for instruction in kernel.instructions
    ] == [
        (0, "add.s32.x", 5, ("a", "b")),
        (1, "ret", 9, ()),
    ]


def test_a_long_opcode_is_cut_in_a_message() -> None:
    with pytest.raises(ReaderError, match=r"the operands of a{40} cannot be read"):
        body(f"{'a' * 60} 1,,2;")


def test_a_location_holds_until_the_next() -> None:
    kernel = body(".loc 7 3 1\n ret; ret; .loc 7 0 1 ret; .loc 7 3 9 ret;")
    assert [
        instruction.source and (instruction.source.file, instruction.source.line) for instruction in kernel.instructions
    ] == [*(("file 7", 3), ("file 7", 3), None, ("file 7", 3))]


def test_a_function_knows_nothing_of_its_head_before_it_is_read() -> None:
    kernel = body(".shared .b8 s[4]; ret;")
    assert (kernel.name, kernel.entry, [variable.name for variable in kernel.variables]) == ("k", True, ["s"])
