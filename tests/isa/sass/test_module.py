from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import nvdisasm_json
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.base.errors import ReaderError
from lab.isa.model import Function, SourceLocation
from lab.isa.sass.lines import LineTable
from lab.isa.sass.module import read_sass

GOLDEN = Path(__file__).parents[1] / "golden"
NAMES = sorted(path.stem for path in GOLDEN.glob("*.lst"))
TILE = (GOLDEN / "sm_90_tile.lst").read_text()
TILE_LINES = nvdisasm_json.line_table((GOLDEN / "sm_90_tile.json").read_text())
MIXED = (GOLDEN / "sm_100_mixed.lst").read_text()


def listing(text: str, name: str = "k") -> str:
    """A listing of one function from lines such as `@P0 BRA 0x0`."""
    lines = [f"/*{16 * number:04x}*/ {line} ;" for number, line in enumerate(text.strip().split("\n"))]
    return "\n".join(["\t.target\tsm_80", f"\t.section\t.text.{name}", *lines])


def sass(text: str) -> Function:
    return read_sass(listing(text)).functions[0]


def flow(text: str) -> list[tuple[tuple[int, ...], bool]]:
    return [(instruction.targets, instruction.falls_through) for instruction in sass(text).instructions]


def test_module() -> None:
    module = read_sass(TILE, TILE_LINES, version="13.5.37")
    assert module.isa == "sass"
    assert module.target == "sm_90"
    assert module.version == "nvdisasm 13.5.37"
    assert [Path(file).name for file in module.files.values()] == ["tile.cu"]
    (kernel,) = module.kernels
    assert kernel.name == "tile"
    assert kernel.instructions[-1].opcode == "EXIT"


@pytest.mark.parametrize("name", NAMES)
def test_golden_listings_read_as_nvdisasms_own_json_says(name: str) -> None:
    text = (GOLDEN / f"{name}.json").read_text()
    module = read_sass((GOLDEN / f"{name}.lst").read_text(), nvdisasm_json.line_table(text), f"{name}.lst")
    expected = nvdisasm_json.stated(text)
    assert [function.name for function in module.functions] == list(expected)
    for function in module.functions:
        found = nvdisasm_json.read(function)
        assert found == nvdisasm_json.changes(expected[function.name])[: len(found)]
        assert {one.opcode for one in expected[function.name][len(found) :]} <= {"BRA", "NOP"}  # padding


def test_instructions_agree_with_the_listing() -> None:
    lines = MIXED.split("\n")
    for function in read_sass(MIXED).functions:
        for instruction in function.instructions:
            line = lines[instruction.line - 1]
            assert f"/*{instruction.address:04x}*/" in line
            assert f" {instruction.opcode} " in line
            assert instruction.predicate is None or f"{instruction.predicate} {instruction.opcode}" in line
            assert f"// |{instruction.live_registers or '':^7}|".replace(" ", "") in line.replace(" ", "")


def test_labels() -> None:
    (kernel,) = read_sass(TILE).functions
    assert {".L_x_0", ".L_x_1", ".L_x_2"} <= set(kernel.labels)
    header = kernel.instructions[kernel.labels[".L_x_1"]]
    assert TILE.split("\n")[header.line - 2].startswith(".L_x_1:")


def test_a_label_of_the_function_becomes_an_offset_and_other_symbols_stay() -> None:
    text = listing("NOP\n@P0 BRA `(.L_x_1)\nMOV R2, `(other)\nCALL.REL.NOINC `($k$sub)\nBRA `(.L_x_9)\nEXIT")
    text = text.replace("/*0050*/", ".L_x_1:\n/*0050*/")
    code = read_sass(text).functions[0].instructions
    assert [one.operands for one in code] == [(), ("0x50",), ("R2", "other"), ("$k$sub",), (".L_x_9",), ()]
    assert [one.targets for one in code] == [(), (5,), (), (), (), ()]


def test_source_lines() -> None:
    (kernel,) = read_sass(TILE, TILE_LINES).functions
    fused = [i.source.line for i in kernel.instructions if i.opcode == "FFMA" and i.source]
    assert fused == [10] * 4
    assert kernel.instructions[0].source is not None
    assert kernel.instructions[0].source.file.endswith("/tile.cu")


def test_a_line_holds_until_the_next() -> None:
    lines = LineTable(("/a.cu", "/b.h"), {"k": {16: (0, 7), 48: (1, 2)}})
    code = read_sass(listing("NOP\nNOP\nNOP\nNOP\nEXIT"), lines).functions[0].instructions
    seven, two = SourceLocation("/a.cu", 7), SourceLocation("/b.h", 2)
    assert [one.source for one in code] == [None, seven, seven, two, two]


def test_without_a_line_table_there_are_no_source_lines() -> None:
    module = read_sass(TILE)
    assert module.files == {}
    assert {instruction.source for instruction in module.functions[0].instructions} == {None}


def test_jump_tables() -> None:
    choose = next(f for f in read_sass(MIXED).functions if f.name == "choose")
    jumps = [i for i in choose.instructions if i.opcode == "BRX"]
    assert jumps
    for jump in jumps:
        assert len(jump.targets) > 1
        assert not jump.falls_through
    unknown = read_sass(MIXED.replace("BRANCH_TARGETS", "")).functions
    choose = next(f for f in unknown if f.name == "choose")
    assert [i.targets for i in choose.instructions if i.opcode == "BRX"] == [()] * len(jumps)


def test_calls_go_on() -> None:
    choose = next(f for f in read_sass(MIXED).functions if f.name == "choose")
    calls = [i for i in choose.instructions if i.opcode.startswith("CALL")]
    assert calls
    assert all(call.falls_through and call.targets == () for call in calls)


def test_operands_are_split_outside_brackets() -> None:
    (kernel,) = read_sass(TILE).functions
    load = next(i for i in kernel.instructions if i.opcode.startswith("LDG"))
    assert len(load.operands) == 2
    assert load.operands[1].startswith("desc[")
    wide = sass("UTMALDG.2D [UR8,UR9],{R1,R2},desc[URZ][UR6],(R1,R2)\nEXIT").instructions[0]
    assert wide.operands == ("[UR8,UR9]", "{R1,R2}", "desc[URZ][UR6]", "(R1,R2)")


@pytest.mark.parametrize(
    ("line", "targets", "falls"),
    [
        ("BRA 0x0", (0,), False),
        ("@P0 BRA 0x0", (0,), True),
        ("@!UP0 BRA.U 0x0", (0,), True),
        ("@PT BRA 0x0", (0,), False),
        ("@!PT BRA 0x0", (0,), True),
        ("BRA P1,0x0", (0,), True),
        ("BRA.U !UP0,0x0", (0,), True),
        ("BRA.DIV UR4,0x0", (0,), True),
        ("BRA.CONV ~URZ,0x0", (0,), True),
        ("BRA.DIV 0x0", (0,), True),
        ("BRA.CONV 0x0", (0,), True),
        ("JMP 0x10", (1,), False),
        ("BSSY B0,0x0", (), True),
        ("BSYNC B0", (), True),
        ("BREAK B0", (), True),
        ("WARPSYNC.COLLECTIVE R4,0x0", (), True),
        ("CALL.REL.NOINC 0x0", (), True),
        ("CALL.ABS.NOINC R10", (), True),
        ("RET.REL.NODEC R2,k", (), False),
        ("@P0 RET.REL.NODEC R2,k", (), True),
        ("EXIT", (), False),
        ("@!P0 EXIT", (), True),
        ("BRX R4,-0x1a0", (), False),
        ("BPT.TRAP 0x1", (), True),
    ],
)
def test_control_flow(line: str, targets: tuple[int, ...], falls: bool) -> None:
    assert flow(f"NOP\n{line}\nEXIT")[1] == (targets, falls)


def test_guard() -> None:
    guarded = sass("@!UP0 UMOV UR4,UR5\n@P3 MOV R1,R2\nEXIT").instructions
    assert [(i.predicate, i.negated) for i in guarded] == [("UP0", True), ("P3", False), (None, False)]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("EXIT\nBRA 0x10\nNOP\nNOP", 1),
        ("RET.REL.NODEC R2,k\nBRA 0x10\nNOP", 1),
        ("NOP\nBRA 0x0\nBRA 0x20\nNOP", 2),
        ("BRA 0x0\nBRA 0x10\nNOP", 1),  # an endless loop is code, the self-branch behind it is not
        ("@P0 EXIT\nBRA 0x10\nNOP", 2),  # and so is one that is reached
        ("EXIT\n@P0 BRA 0x10", 2),
        ("BRA 0x0", 1),
        ("NOP\nEXIT", 2),
    ],
)
def test_padding_is_dropped(text: str, left: int) -> None:
    assert len(sass(text).instructions) == left


def test_without_entry_points_a_function_with_an_exit_is_a_kernel() -> None:
    assert read_sass(listing("RET.REL.NODEC R2,k")).kernels == ()
    assert len(read_sass(listing("EXIT")).kernels) == 1


def test_entry_points_of_the_listing_decide() -> None:
    two = f'{listing("EXIT", "one")}\n{listing("EXIT", "two")}\n\t.other\ttwo,@"STO_CUDA_ENTRY STV_DEFAULT"\n'
    assert [kernel.name for kernel in read_sass(two).kernels] == ["two"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ("Usage  : nvdisasm [options] <image file>", 1),
        ("[" * 100000, 1),
        ("/*0000*/ EXIT ;", 1),
        (listing("BRA 0x100\nEXIT"), 3),
        (listing("EXIT\nBRA 0x8\nEXIT"), 4),
        (listing("NOP\nEXIT").replace("/*0010*/", "/*0000*/"), 4),
        (listing("NOP\nEXIT").replace("/*0010*/", "/*0008*/"), 4),
        (listing("NOP\nEXIT").replace(" EXIT", " 17"), 4),
    ],
)
def test_what_is_no_listing_is_refused(text: str, line: int) -> None:
    with pytest.raises(ReaderError, match=rf"k\.lst:{line}: "):
        read_sass(text, file="k.lst")


def test_every_field_of_an_instruction() -> None:
    text = listing("NOP\n@!P3 LDS.128 R4, [R2 + 0x10]\nEXIT")
    lines = LineTable(("/a.cu",), {"k": {16: (0, 7)}})
    found = read_sass(text, lines).functions[0].instructions[1]
    assert (found.index, found.line, found.address, found.opcode) == (1, 4, 16, "LDS.128")
    assert (found.predicate, found.negated, found.cls, found.live_registers) == ("P3", True, "ld.shared", None)
    assert (found.operands, found.targets, found.falls_through) == (("R4", "[R2 + 0x10]"), (), True)
    assert found.source == SourceLocation("/a.cu", 7)


def test_versions_with_and_without_a_number() -> None:
    assert read_sass(listing("EXIT")).version == "nvdisasm"
    assert read_sass(listing("EXIT"), version="13.0").version == "nvdisasm 13.0"
    assert read_sass(listing("EXIT"), LineTable(("/a", "/b"))).files == {0: "/a", 1: "/b"}


def test_labels_are_in_the_order_of_their_places_and_none_is_of_padding() -> None:
    text = listing("NOP\nEXIT\nBRA 0x20\nNOP")
    text = text.replace("/*0010*/", ".L_b:\n.L_a:\n/*0010*/").replace("/*0000*/", ".L_z:\n/*0000*/")
    text = text.replace("/*0030*/", ".L_end:\n/*0030*/")
    assert list(read_sass(text).functions[0].labels.items()) == [(".L_z", 0), (".L_b", 1), (".L_a", 1)]


def test_a_jump_table_names_each_place_once() -> None:
    text = listing('BRX R4 -0x1a0 (*"BRANCH_TARGETS .L_2,.L_1,.L_2,.L_9"*)\nNOP\nEXIT')
    text = text.replace("/*0010*/", ".L_1:\n/*0010*/").replace("/*0020*/", ".L_2:\n/*0020*/")
    jump = read_sass(text).functions[0].instructions[0]
    assert (jump.targets, jump.falls_through, jump.operands) == ((2, 1), False, ("R4", "-0x1a0"))


@pytest.mark.parametrize(
    ("line", "targets", "falls"),
    [
        ("BRA", (), False),
        ("BRA R4", (), False),
        ("BRA `(other)", (), False),
        ("JMP 0x20", (2,), False),
        ("@UPT BRA 0x0", (0,), False),
        ("@!UPT EXIT", (), True),
        ("@PT EXIT", (), False),
        ("BRA.ANY 0x0", (0,), True),
        ("@P0 BRX R4", (), True),
        ("JMX R4", (), False),
        ("RTT", (), False),
        ("KILL", (), True),
    ],
)
def test_more_control_flow(line: str, targets: tuple[int, ...], falls: bool) -> None:
    assert flow(f"NOP\n{line}\nEXIT")[1] == (targets, falls)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("NOP\nNOP", 0),
        ("BRA 0x0\nNOP", 1),
        ("EXIT\nBRA 0x10", 1),
        ("EXIT\nBRA 0x0\nNOP", 2),
        ("BRA 0x30\nBRA 0x10\nNOP\nEXIT", 4),
        ("EXIT\nJMP 0x10\nNOP", 2),
        ("JMP 0x0\nBRA 0x10", 1),
        ("EXIT\n@P0 BRA 0x10\nNOP", 2),
        ("@PT EXIT\nBRA 0x10\nNOP", 2),
        ("NOP\nNOP\nEXIT\nNOP\nNOP", 3),
    ],
)
def test_more_padding(text: str, left: int) -> None:
    assert len(sass(text).instructions) == left


def test_what_is_out_of_order_is_named() -> None:
    for offset in ("0000", "0008", "0018"):
        with pytest.raises(
            ReaderError, match=rf"k\.lst:4: an instruction at byte 0x{offset.lstrip('0') or '0'}, expected at 0x10"
        ):
            read_sass(listing("NOP\nEXIT").replace("/*0010*/", f"/*{offset}*/"), file="k.lst")
    assert len(read_sass(listing("NOP\nEXIT").replace("/*0010*/", "/*0030*/")).functions[0].instructions) == 2
    with pytest.raises(ReaderError, match=r"k\.lst:3: BRA branches to 0x30, where there is no instruction"):
        read_sass(listing("BRA 0x30\nEXIT"), file="k.lst")


@settings(max_examples=200)
@given(st.integers(0, len(TILE)), st.integers(0, 40), st.text("|/*.:#;`() 0x19R\n", max_size=3))
def test_a_mutated_listing_raises_nothing_else(place: int, cut: int, inserted: str) -> None:
    with suppress(ReaderError):
        read_sass(TILE[:place] + inserted + TILE[place + cut :], TILE_LINES)
