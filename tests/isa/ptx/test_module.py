from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.base.errors import ReaderError
from lab.isa.mix import module_mix
from lab.isa.model import Function, Variable
from lab.isa.ptx.module import read_ptx

GOLDEN = Path(__file__).parents[1] / "golden"
LISTINGS = sorted(path.name for path in GOLDEN.glob("*.ptx"))
HEAD = ".version 8.5\n.target sm_90a, debug\n.address_size 64\n"


def golden(name: str) -> str:
    return (GOLDEN / name).read_text()


def body(text: str, head: str = "") -> Function:
    (function,) = read_ptx(f"{HEAD}.entry k(.param .u64 a) {head} {{\n{text}\n}}").functions
    return function


def statements(text: str) -> list[tuple[str, tuple[str, ...]]]:
    return [(instruction.opcode, instruction.operands) for instruction in body(text).instructions]


def declared(text: str) -> Variable:
    (variable,) = read_ptx(HEAD + text).variables
    return variable


def refused(text: str) -> str:
    with pytest.raises(ReaderError) as caught:
        read_ptx(text, "k.ptx")
    assert str(caught.value).startswith("k.ptx:")
    return str(caught.value)


# ---- whole listings


def test_module_facts() -> None:
    module = read_ptx(golden("nvrtc_tile.ptx"))
    assert (module.isa, module.version, module.target) == ("ptx", "9.5", "sm_90")
    assert module.files == {1: "tile.cu"}
    (kernel,) = module.kernels
    assert kernel.directives == {"maxntid": (1024, 1, 1)}
    assert [parameter.type for parameter in kernel.parameters] == ["u64", "u64", "u64", "u32"]


@pytest.mark.parametrize("name", LISTINGS)
def test_lines_point_at_the_instruction(name: str) -> None:
    lines = golden(name).split("\n")
    for function in read_ptx(golden(name)).functions:
        for index, instruction in enumerate(function.instructions):
            assert instruction.index == index
            assert instruction.opcode in lines[instruction.line - 1]


@pytest.mark.parametrize("name", LISTINGS)
def test_windows_line_ends_change_nothing(name: str) -> None:
    assert read_ptx(golden(name).replace("\n", "\r\n")) == read_ptx(golden(name))


def test_nvcc_calls_and_tables() -> None:
    module = read_ptx(golden("nvcc_mixed.ptx"))
    assert [(function.name, function.entry) for function in module.functions] == [
        ("_Z6helperfi", False),
        ("choose", True),
        ("stream", True),
    ]
    helper, choose, _ = module.functions
    assert [result.name for result in helper.results] == ["func_retval0"]
    calls = [instruction for instruction in choose.instructions if instruction.opcode.startswith("call")]
    assert len(calls) == 2
    for call in calls:
        assert call.falls_through
        assert call.targets == ()
        assert call.operands[0].startswith("(retval0$")
    names = [variable.name for variable in choose.variables]
    assert len(names) == len(set(names))
    variables = {variable.name: variable for variable in module.variables}
    assert variables["table"].initial[:4] == ("1", "0", "0", "0")
    assert variables["table"].count == 24
    assert variables["pointer"].initial == ("_Z6helperfi",)


def test_debug_listing_keeps_its_lines() -> None:
    (kernel,) = read_ptx(golden("nvcc_debug.ptx")).kernels
    assert {i.source.line for i in kernel.instructions if i.source} <= set(range(1, 15))


def test_clang_listing() -> None:
    module = read_ptx(golden("clang_dot.ptx"))
    (kernel,) = module.functions
    assert kernel.directives == {"maxntid": (256, 1, 1), "minnctapersm": (2,)}
    assert module.variables[0] == Variable("scratch", "shared", "b8", None, 16, external=True)
    assert module.variables[1].initial[1] == "100"
    assert kernel.labels["$L__func_end0"] == len(kernel.instructions)
    assert kernel.instructions[-2].operands == ("%r11", "[retval0$1]")
    assert {i.source.line for i in kernel.instructions if i.source} == {3, 5, 6}


def test_triton_listing() -> None:
    (kernel,) = read_ptx(golden("triton_matmul.ptx")).functions
    assert kernel.directives == {"reqntid": (128, 1, 1)}
    by_opcode = {instruction.opcode: instruction for instruction in kernel.instructions}
    assert by_opcode["cp.async.cg.shared.global"].operands == ("[ %r7 + 0 ]", "[ %rd4 + 0 ]", "0x10", "%r8")
    assert by_opcode["ld.global.v2.b32"].predicate == "%p1"
    assert by_opcode["cp.async.commit_group"].operands == ()
    wait = by_opcode["mbarrier.try_wait.parity.shared.b64"]
    assert wait.operands[0] == "%complete$1"
    assert kernel.instructions[wait.index + 1].targets == (wait.index,)
    assert kernel.instructions[wait.index + 1].negated


# ---- statements


def test_statements_on_one_line_and_odd_white_space() -> None:
    assert statements("add .s32\t%r1,\n  %r2 , 4*8+1;;mov.u32 %r3,%tid.x;ret ;") == [
        ("add.s32", ("%r1", "%r2", "4*8+1")),
        ("mov.u32", ("%r3", "%tid.x")),
        ("ret", ()),
    ]


def test_comments_of_both_kinds() -> None:
    text = 'mov.u32 %r1, /* a; } " */ 1; // ret; "\n/* two\nlines */ ret;'
    kernel = body(text)
    assert [(i.opcode, i.line) for i in kernel.instructions] == [("mov.u32", 5), ("ret", 7)]


@pytest.mark.parametrize(
    ("text", "operands"),
    [
        ("st.shared.v4.f32 [%rd1+-16], {%f1,%f2, _,%f4};", ("[%rd1+-16]", "{%f1,%f2, _,%f4}")),
        ("setp.lt.s32 %p1|%p2, %r1, %r2;", ("%p1|%p2", "%r1", "%r2")),
        ("setp.lt.and.s32 %p1, %r1, %r2, !%p2;", ("%p1", "%r1", "%r2", "!%p2")),
        ("mov.f32 %f1, 0f3F800000;", ("%f1", "0f3F800000")),
        ("mov.f64 %fd1, -1.5e-10;", ("%fd1", "-1.5e-10")),
        ("mov.u32 %r1, 0x1FU;", ("%r1", "0x1FU")),
        ("mov.u32 %r1, WARP_SZ;", ("%r1", "WARP_SZ")),
        ("mov.u64 %rd1, sym+8;", ("%rd1", "sym+8")),
        ("mov.b32 %r1, {%rs1, %rs2};", ("%r1", "{%rs1, %rs2}")),
        ("tex.2d.v4.f32.f32 {%f1,%f2,%f3,%f4}, [t, {%f5,%f6}];", ("{%f1,%f2,%f3,%f4}", "[t, {%f5,%f6}]")),
        ("call.uni (retval0),\nname,\n(\nparam0,\nparam1\n);", ("(retval0)", "name", "( param0, param1 )")),
        ("call name, (p0, p1);", ("name", "(p0, p1)")),
        ("call.uni name;", ("name",)),
        ("call (%r1), %rd1, (%r2), proto;", ("(%r1)", "%rd1", "(%r2)", "proto")),
        ("bar.sync 0, 128;", ("0", "128")),
        ("mov.u32 %r1, a[3];", ("%r1", "a[3]")),
    ],
)
def test_operands(text: str, operands: tuple[str, ...]) -> None:
    assert body(text).instructions[0].operands == operands


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


# ---- scopes


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


# ---- declarations


def test_registers() -> None:
    kernel = body(".reg .b32 %r<39>; .reg .pred p, q; .reg .v4 .f32 v;")
    assert kernel.variables == (
        Variable("%r", "reg", "b32", 39, 4, parameterised=True),
        Variable("p", "reg", "pred"),
        Variable("q", "reg", "pred"),
        Variable("v", "reg", "f32", 1, 16, vector=4),
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (".global .u32 x;", Variable("x", "global", "u32", 1, 4)),
        (".visible .global .align 16 .b8 x[4224];", Variable("x", "global", "b8", 4224, 16)),
        (".extern .shared .align 16 .b8 s[];", Variable("s", "shared", "b8", None, 16, external=True)),
        (".const .f64 c[4][8];", Variable("c", "const", "f64", 32, 8)),
        (".const .f64 c[2*4];", Variable("c", "const", "f64", 8, 8)),
        (".common .global .b32 x;", Variable("x", "global", "b32", 1, 4)),
        (".weak .attribute(.managed) .global .b32 x;", Variable("x", "global", "b32", 1, 4)),
        (".global .attribute(.unified(1, 2)) .b32 x;", Variable("x", "global", "b32", 1, 4)),
        (".global .texref t;", Variable("t", "global", "texref", 1, None)),
        (".global .u32 x = 7;", Variable("x", "global", "u32", 1, 4, initial=("7",))),
        (".global .f32 x = -1.5e-3;", Variable("x", "global", "f32", 1, 4, initial=("-1.5e-3",))),
        (".global .u8 x[] = {1, 0x2,\n3};", Variable("x", "global", "u8", 3, 1, initial=("1", "0x2", "3"))),
        (
            ".global .u32 x[2][3] = {{1}, {2, 3}};",
            Variable("x", "global", "u32", 6, 4, initial=("1", "0", "0", "2", "3", "0")),
        ),
        (".global .u32 x[][2] = {{1}, {2, 3}};", Variable("x", "global", "u32", 4, 4, initial=("1", "0", "2", "3"))),
        (
            ".const .v2 .f32 x[2] = {{1.0, 2.0}, {3.0, 4.0}};",
            Variable("x", "const", "f32", 2, 8, 2, ("1.0", "2.0", "3.0", "4.0")),
        ),
        (".global .u64 x[2] = {generic(y)+4, z};", Variable("x", "global", "u64", 2, 8, initial=("generic(y)+4", "z"))),
        (
            ".global .u8 x[2] = {0xff(y), 0xff00(y)};",
            Variable("x", "global", "u8", 2, 1, initial=("0xff(y)", "0xff00(y)")),
        ),
        (".global .u32 x[4] = {};", Variable("x", "global", "u32", 4, 4)),
    ],
)
def test_variables(text: str, expected: Variable) -> None:
    assert declared(text) == expected


def test_several_in_one_declaration() -> None:
    module = read_ptx(f"{HEAD}.global .u32 a = 1, b[2] = {{1, 2}}, c;")
    assert [(v.name, v.count, v.initial) for v in module.variables] == [
        ("a", 1, ("1",)),
        ("b", 2, ("1", "2")),
        ("c", 1, ()),
    ]


def test_a_megabyte_of_initialiser() -> None:
    numbers = [str(number % 256) for number in range(300_000)]
    variable = declared(f".global .align 4 .b8 x[300000] = {{{', '.join(numbers)}}};")
    assert variable.initial == tuple(numbers)


@pytest.mark.parametrize(
    "text",
    [
        ".global .u32 x[1] = {1, 2};",
        ".global .u32 x[2][2] = {{1, 2, 3}, {4}};",
        ".global .u32 x = ;",
        ".global .u32 x = {1;",
        ".global .u32 x[2] = {1 2};",
        ".global .u32 x[-1];",
        ".global .u32 x[99999999999999999999999];",
        ".global x;",
        ".global .u32;",
        ".global .u32 x",
        ".nowhere .u32 x;",
        ".global .u32 x[1][999999999] = {{1}};",
        ".global .align y .u32 x;",
        ".global .u32 x[1] = {{{{1}}}}}};",
        ".reg .b32 %r<;",
        ".reg .b32 %r<x>;",
    ],
)
def test_broken_declarations(text: str) -> None:
    refused(HEAD + text)


def test_parameters() -> None:
    text = f"""{HEAD}.visible .func (.reg .b32 %out, .param .align 8 .b8 pair[16]) f(.reg .f32 %x, .param .b32 n)
    .noreturn {{ ret; }}
    .entry k(.param .u64 .ptr .global .align 16 p, .param .align 8 .b8 s[24]) .maxntid 32, 4 .maxnreg 64
    .explicitcluster .reqnctapercluster 2 .blocksareclusters .maxclusterrank 0x8 .pragma "nounroll"; {{ ret; }}"""
    function, kernel = read_ptx(text).functions
    assert function.results == (Variable("%out", "reg", "b32", 1, 4), Variable("pair", "param", "b8", 16, 8))
    assert function.parameters == (Variable("%x", "reg", "f32", 1, 4), Variable("n", "param", "b32", 1, 4))
    assert function.directives == {"noreturn": ()}
    assert kernel.parameters == (Variable("p", "param", "u64", 1, 16), Variable("s", "param", "b8", 24, 8))
    assert kernel.directives == {
        "maxntid": (32, 4, 1),
        "maxnreg": (64,),
        "explicitcluster": (),
        "reqnctapercluster": (2, 1, 1),
        "blocksareclusters": (),
        "maxclusterrank": (8,),
    }


def test_functions_that_are_only_declared_are_left_out() -> None:
    declared_only = ".extern .func (.param .b32 r) vprintf\n(\n.param .b64 a,\n.param .b64 b\n)\n;\n.func f;"
    text = f'{HEAD}{declared_only} .alias g, f;\n.pragma "x";'
    assert read_ptx(text).functions == ()


# ---- what cannot be read


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ("int main() {}", 1),
        (f"{HEAD}.entry k() {{\nadd.s32 %r1, %r2\nret;\n}}", 5),
        (f"{HEAD}.entry k() {{\nbra NOWHERE;\n}}", 5),
        (f"{HEAD}.entry k() {{\n{{ L: }}\nbra L;\n}}", 6),
        (f"{HEAD}.entry k() {{\nL:\nL: ret;\n}}", 6),
        (f"{HEAD}.entry k() {{\nbrx.idx %r1, nowhere;\n}}", 5),
        (f"{HEAD}.entry k() {{\nT: .branchtargets A;\nret;\n}}", 5),
        (f"{HEAD}.entry k() {{\n.frobnicate 3;\n}}", 5),
        (f"{HEAD}.frobnicate 3;", 4),
        (f"{HEAD}.entry k() {{\nret;", 5),
        (f"{HEAD}.entry k() {{\nst.f32 [%rd1, %f1;\n}}", 5),
        (f"{HEAD}.entry k() {{\nmov.b32 {{%r1, %r2;\n}}", 5),
        (f"{HEAD}.entry k() {{\nadd.s32 %r1,, %r2;\n}}", 5),
        (f"{HEAD}/* never\nending", 4),
        (f'{HEAD}.pragma "never ending', 4),
        (f"{HEAD}.entry k() .maxntid x {{ ret; }}", 4),
        (f"{HEAD}.entry k(.param .u64 a .param .u64 b) {{ ret; }}", 4),
        (f"{HEAD}.entry k() {{\nbra;\n}}", 5),
    ],
)
def test_error_names_the_line(text: str, line: int) -> None:
    assert refused(text).startswith(f"k.ptx:{line}:")


@pytest.mark.parametrize(
    "text",
    [
        " " * 10**6,
        "ret " * 10**5,
        "a" * 10**6,
        "{" * 10**5,
        "[" * 10**5 + ";",
        "st [" + "a+" * 10**5 + ";",
        "mov -" * 10**5 + ";",
        "st {" + "a," * 10**5 + ";",
        "call (" * 10**5 + ";",
        "@" * 10**6,
        ".loc " * 10**5,
        "a:" * 10**5,
        "/*" * 10**5,
    ],
)
def test_hostile_text_ends(text: str) -> None:
    refused(f"{HEAD}.entry k() {{ {text}")


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from(LISTINGS),
    st.integers(0, 1 << 20),
    st.integers(0, 1 << 20),
    st.sampled_from(["delete", "insert", "truncate", "repeat"]),
    st.text('{}[]()<>;:,.@%$!|"/*_0x=\n aé', max_size=3),
)
def test_mutated_text_raises_nothing_else(name: str, place: int, other: int, how: str, inserted: str) -> None:
    text = golden(name)
    place %= len(text)
    changed = {
        "delete": text[:place] + text[place + other % 20 :],
        "insert": text[:place] + inserted + text[place:],
        "truncate": text[:place],
        "repeat": text[:place] + text[other % len(text) :],
    }[how]
    try:
        module = read_ptx(changed, name)
    except ReaderError:
        return
    module_mix(module)


# ---- random programs

_OPCODES = {
    "fma.rn.f32 %f1, %f2, %f3, %f4": "fma",
    "mad.lo.s32 %r1, %r2, 0x1F, -4": "integer",
    "ld.shared.v4.f32 {%f1, %f2, %f3, %f4}, [%r1+-16]": "ld.shared",
    "st.global.f32 [ %rd1 + 4 ], %f1": "st.global",
    "mov.f32 %f1, 0f3F800000": "move",
    "setp.lt.s32 %p1|%p2, %r1, %r2": "compare",
    "bar.sync 0": "barrier",
    "call.uni (%r1), f, (%r2, %r3)": "branch",
    "ex2.approx.f32 %f1, %f2": "special",
}
_GAPS = st.sampled_from(
    [" ", "\n", "\t", " // }; ret;\n", "/* { */", "\r\n", "\n.loc 1 2 3\n", '\n.pragma "nounroll";\n', " ;"]
)


@st.composite
def blocks(draw: st.DrawFn, depth: int = 0) -> tuple[str, Counter[str], int]:
    """Statements, their expected classes, and the loops they make."""
    text, counts, loops = "", Counter[str](), 0
    for _ in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from(["instruction", "instruction", "guarded", "scope", "loop"]))
        gap = draw(_GAPS)
        if kind in {"instruction", "guarded"} or depth > 3:
            statement, cls = draw(st.sampled_from(sorted(_OPCODES.items())))
            guard = "@!%p1 " if kind == "guarded" else ""
            text += f"{guard}{statement};{gap}"
            counts[cls] += 1
            continue
        inner, inner_counts, inner_loops = draw(blocks(depth=depth + 1))
        counts += inner_counts
        loops += inner_loops
        if kind == "scope":
            text += f"{{{gap}.reg .b32 %r<4>; .reg .pred q;{inner}}}{gap}"
        else:
            blank = draw(st.sampled_from([" ", "\n\t", " /* ; */ ", " // ;\n"]))
            text += f"{{ L: mov.b32 %r1, 0;{gap}{inner}@q bra{blank}L; }}"
            counts += Counter({"move": 1, "branch": 1})
            loops += 1
    return text, counts, loops


@settings(max_examples=200, deadline=None)
@given(blocks())
def test_random_programs_give_the_expected_counts(program: tuple[str, Counter[str], int]) -> None:
    text, counts, loops = program
    (kernel,) = module_mix(read_ptx(f"{HEAD}.entry k() {{ .reg .pred q; {text} ret; }}"))
    assert Counter(kernel.counts.by_class) == counts + Counter({"branch": 1})
    assert len(kernel.loops) == loops
    assert sum(kernel.counts.by_opcode.values()) == kernel.counts.instructions == counts.total() + 1
