from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.base.errors import ReaderError
from lab.isa.model import Function
from lab.isa.sass.listing import read_listing
from lab.isa.sass.module import read_sass

GOLDEN = Path(__file__).parents[1] / "golden"
TILE = (GOLDEN / "sm_90_tile.json").read_text()
TILE_LISTING = (GOLDEN / "sm_90_tile.lst").read_text()
MIXED = (GOLDEN / "sm_100_mixed.json").read_text()
MIXED_LISTING = (GOLDEN / "sm_100_mixed.lst").read_text()


def document(*instructions: dict[str, str]) -> str:
    function = {"function-name": "k", "start": 0, "length": 16 * len(instructions), "sass-instructions": instructions}
    return json.dumps([{"SM": {"version": {"major": 8, "minor": 0}}, "Producer": "nvdisasm"}, [function]])


def sass(text: str) -> Function:
    """A function from lines such as `@P0 BRA 0x0`."""
    items = []
    for line in text.strip().split("\n"):
        words = line.split()
        item = {"predicate": words.pop(0)} if words[0].startswith("@") else {}
        item["opcode"] = words[0]
        if len(words) > 1:
            item["operands"] = words[1]
        items.append(item)
    return read_sass(document(*items)).functions[0]


def flow(text: str) -> list[tuple[tuple[int, ...], bool]]:
    return [(instruction.targets, instruction.falls_through) for instruction in sass(text).instructions]


def test_module() -> None:
    module = read_sass(TILE, TILE_LISTING)
    assert module.isa == "sass"
    assert module.target == "sm_90"
    assert module.version.startswith("nvdisasm V13.5")
    (kernel,) = module.kernels
    assert kernel.name == "tile"
    assert kernel.instructions[-1].opcode == "EXIT"


def test_instructions_agree_with_the_listing() -> None:
    lines = MIXED_LISTING.split("\n")
    for function in read_sass(MIXED, MIXED_LISTING).functions:
        for instruction in function.instructions:
            line = lines[instruction.line - 1]
            assert f"/*{instruction.address:04x}*/" in line
            assert f" {instruction.opcode} " in line
            assert instruction.predicate is None or f"{instruction.predicate} {instruction.opcode}" in line
            assert f"// |{instruction.live_registers or '':^7}|".replace(" ", "") in line.replace(" ", "")


def test_without_a_listing() -> None:
    (with_listing,), (without,) = read_sass(TILE, TILE_LISTING).functions, read_sass(TILE).functions
    assert without.entry
    assert [i.line for i in without.instructions] == list(range(1, len(without.instructions) + 1))
    assert {i.live_registers for i in without.instructions} == {None}
    assert [(i.targets, i.falls_through) for i in without.instructions] == [
        (i.targets, i.falls_through) for i in with_listing.instructions
    ]
    assert set(without.labels) == {f"{16 * place:#x}" for place in without.labels.values()}


def test_labels_come_from_the_listing() -> None:
    (kernel,) = read_sass(TILE, TILE_LISTING).functions
    assert {".L_x_0", ".L_x_1", ".L_x_2"} <= set(kernel.labels)
    header = kernel.instructions[kernel.labels[".L_x_1"]]
    assert TILE_LISTING.split("\n")[header.line - 2].startswith(".L_x_1:")


def test_source_lines() -> None:
    (kernel,) = read_sass(TILE).functions
    fused = [i.source.line for i in kernel.instructions if i.opcode == "FFMA" and i.source]
    assert fused == [10] * 4
    assert kernel.instructions[0].source.file.endswith("/tile.cu")


def test_jump_tables() -> None:
    choose = next(f for f in read_sass(MIXED, MIXED_LISTING).functions if f.name == "choose")
    jumps = [i for i in choose.instructions if i.opcode == "BRX"]
    assert jumps
    for jump in jumps:
        assert len(jump.targets) > 1
        assert not jump.falls_through
    unknown = next(f for f in read_sass(MIXED).functions if f.name == "choose")
    assert [i.targets for i in unknown.instructions if i.opcode == "BRX"] == [()] * len(jumps)


def test_calls_go_on() -> None:
    choose = next(f for f in read_sass(MIXED, MIXED_LISTING).functions if f.name == "choose")
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


def test_function_without_exit_is_no_kernel() -> None:
    text = json.loads(document({"opcode": "RET.REL.NODEC", "operands": "R2,k"}))
    assert read_sass(json.dumps(text)).kernels == ()


@pytest.mark.parametrize(
    "text",
    [
        "", "[", "{}", "[]", "null", "[{}, []]", '[{}, [{"function-name": "k"}]]', "[" * 100000, "1" * 5000,
        document({"opcode": ""}), document({"opcode": "BRA", "operands": "0x100"}),
        document({"opcode": "BRA", "operands": "0x8"}), document({"operands": "R1"}),
        document({"opcode": "MOV", "operands": 3}), document({"opcode": "MOV", "predicate": None}),
        "Usage  : nvdisasm [options] <image file>",
    ],
)  # fmt: skip
def test_what_is_no_disassembly_is_refused(text: str) -> None:
    with pytest.raises(ReaderError, match=r"k\.json:"):
        read_sass(text, file="k.json")


@settings(max_examples=150, deadline=None)
@given(st.integers(0, len(TILE)), st.integers(0, 12), st.text('{}[]",:0x19Aé\n', max_size=3))
def test_mutated_json_raises_nothing_else(place: int, cut: int, inserted: str) -> None:
    with suppress(ReaderError):
        read_sass(TILE[:place] + inserted + TILE[place + cut :], TILE_LISTING)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, len(TILE_LISTING)), st.integers(0, 40), st.text("|/*.:# 0x19\n", max_size=3))
def test_mutated_listing_never_changes_the_instructions(place: int, cut: int, inserted: str) -> None:
    listing = TILE_LISTING[:place] + inserted + TILE_LISTING[place + cut :]
    (kernel,) = read_sass(TILE, listing).functions
    assert len(kernel.instructions) == 63


@pytest.mark.parametrize(
    ("flags", "target"),
    [
        ("EF_CUDA_64BIT_ADDRESS EF_CUDA_SM90 EF_CUDA_VIRTUAL_SM(EF_CUDA_SM90)", "sm_90"),
        ("EF_CUDA_ACCELERATORS EF_CUDA_SM90 EF_CUDA_VIRTUAL_SM(EF_CUDA_SM90)", "sm_90a"),
        ("EF_CUDA_64BIT_ADDRESS", ""),
    ],
)
def test_images_from_before_cuda_13_name_their_machine_in_their_flags(flags, target):
    assert read_listing(f'\t.headerflags\t@"{flags}"\n').target == target
