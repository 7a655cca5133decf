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


def test_files_are_known_where_their_table_follows_the_code() -> None:
    module = read_ptx(f'{HEAD}.entry k() {{\n.loc 1 3 0\nret;\n}}\n.file 1 "tile.cu"\n')
    source = module.functions[0].instructions[0].source
    assert source is not None
    assert (source.file, source.line) == ("tile.cu", 3)


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


# ---- functions


def test_parameters() -> None:
    text = f"""{HEAD}.visible .func (.reg .b32 %out, .param .align 8 .b8 pair[16]) f(.reg .f32 %x, .param .b32 n)
    .noreturn {{ ret; }}
    .entry k(.param .u64 .ptr .global .align 16 p, .param .align 8 .b8 s[24]) .maxntid 32, 4 .maxnreg 64
    .explicitcluster .reqnctapercluster 2 .blocksareclusters .maxclusterrank 0x8 .pragma "nounroll"; {{ ret; }}"""
    function, kernel = read_ptx(text).functions
    assert function.results == (Variable("%out", "reg", "b32", 1, 4), Variable("pair", "param", "b8", 16, 8))
    assert function.parameters == (Variable("%x", "reg", "f32", 1, 4), Variable("n", "param", "b32", 1, 4))
    assert function.directives == {"noreturn": ()}
    assert kernel.parameters == (Variable("p", "param", "u64", 1, 8, pointer=True), Variable("s", "param", "b8", 24, 8))
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


@settings(max_examples=400)
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


@settings(max_examples=200)
@given(blocks())
def test_random_programs_give_the_expected_counts(program: tuple[str, Counter[str], int]) -> None:
    text, counts, loops = program
    (kernel,) = module_mix(read_ptx(f"{HEAD}.entry k() {{ .reg .pred q; {text} ret; }}"))
    assert Counter(kernel.counts.by_class) == counts + Counter({"branch": 1})
    assert len(kernel.loops) == loops
    assert sum(kernel.counts.by_opcode.values()) == kernel.counts.instructions == counts.total() + 1
