from __future__ import annotations

from dataclasses import replace

import pytest
from diff_support import SCALE, normal

from lab.diff.classify import CodeClass, classify_difference, mix_key
from lab.diff.normal import NormalInstruction, NormalKernel

BASE = normal(SCALE, "scale")


def code(*lines: str) -> tuple[NormalInstruction, ...]:
    """Return instructions of texts `opcode operand, operand`, all with the same scheduling bits."""
    instructions = []
    for line in lines:
        guard, _, rest = line.rpartition("@")[2].partition(" ") if line.startswith("@") else ("", "", line)
        opcode, _, operands = rest.partition(" ")
        split = tuple(word.strip() for word in operands.split(", ") if word)
        instructions.append(NormalInstruction(opcode, guard and f"@{guard}", split, 0x7E4, hash(line), None))
    return tuple(instructions)


def cls(base: tuple[NormalInstruction, ...], head: tuple[NormalInstruction, ...]) -> CodeClass:
    return classify_difference(with_code(base), with_code(head)).cls


def with_code(instructions: tuple[NormalInstruction, ...]) -> NormalKernel:
    return replace(BASE, instructions=instructions)


def test_identical():
    assert classify_difference(BASE, BASE).cls is CodeClass.IDENTICAL


def test_renamed_registers_and_predicates():
    base = code("LDG.E R4, [R2.64]", "FSETP.GT.AND P0, PT, R4, R6, PT", "@P0 FADD R5, R4, 1", "STG.E [R2.64], R5")
    head = code("LDG.E R8, [R2.64]", "FSETP.GT.AND P1, PT, R8, R7, PT", "@P1 FADD R9, R8, 1", "STG.E [R2.64], R9")
    assert cls(base, head) is CodeClass.RENAMED


@pytest.mark.parametrize(
    ("base", "head"),
    [
        # two registers that were one
        (["FADD R1, R2, R2", "FADD R3, R1, R2"], ["FADD R1, R2, R4", "FADD R3, R1, R2"]),
        # another lane of a vector
        (["LDG.E.128 R4, [R2.64]", "FADD R0, R5, R6"], ["LDG.E.128 R4, [R2.64]", "FADD R0, R6, R5"]),
        # lanes of a pair that no longer are one
        (["DADD R4, R6, R8", "MOV R0, R5"], ["DADD R4, R6, R8", "MOV R0, R7"]),
        # an opcode with very wide operands keeps its registers
        (["HGMMA.64x64x16.F32 R24, gdesc[UR4], R24"], ["HGMMA.64x64x16.F32 R56, gdesc[UR4], R56"]),
    ],
)
def test_no_renaming(base, head):
    assert not cls(code(*base), code(*head)).harmless


def test_vectors_move_together():
    base = code("LDG.E.128 R4, [R2.64]", "FADD R0, R5, R6")
    assert cls(base, code("LDG.E.128 R8, [R2.64]", "FADD R0, R9, R10")) is CodeClass.RENAMED


def test_rescheduled():
    base = code("LDG.E R4, [R2.64]", "IADD3 R7, R6, 1, RZ", "FADD R5, R4, 1", "STG.E [R2.64], R5", "STG.E [R8.64], R7")
    head = code("IADD3 R9, R6, 1, RZ", "LDG.E R4, [R2.64]", "FADD R5, R4, 1", "STG.E [R2.64], R5", "STG.E [R8.64], R9")
    assert cls(base, head) is CodeClass.RESCHEDULED


def test_scheduling_bits_alone():
    head = with_code((*BASE.instructions[:-1], replace(BASE.instructions[-1], control=1)))
    difference = classify_difference(BASE, head)
    assert difference.cls is CodeClass.RESCHEDULED
    assert "scheduling bits alone" in difference.reasons[0]


def test_other_data_flow():
    base = code("LDG.E R4, [R2.64]", "LDG.E R5, [R8.64]", "FADD R6, R4, 1", "FADD R7, R5, 1", "STG.E [R2.64], R6")
    head = code("LDG.E R4, [R2.64]", "LDG.E R5, [R8.64]", "FADD R6, R4, 1", "FADD R7, R6, 1", "STG.E [R2.64], R7")
    assert cls(base, head) is CodeClass.EQUIVALENT


def test_an_immediate():
    difference = classify_difference(with_code(code("IMAD R1, R2, 0x2, RZ")), with_code(code("IMAD R1, R2, 0x3, RZ")))
    assert difference.cls is CodeClass.CHANGED
    assert difference.reasons == ("immediates: IMAD: 0x2 -> 0x3",)


def test_bits_that_the_listing_does_not_show():
    head = with_code((replace(BASE.instructions[0], encoding=5), *BASE.instructions[1:]))
    assert classify_difference(BASE, head).cls is CodeClass.CHANGED


def test_launch_bounds_alone():
    difference = classify_difference(BASE, normal(SCALE.replace("256", "512"), "scale"))
    assert difference.cls is CodeClass.CHANGED
    assert "launch bound: 256x1x1 -> 512x1x1" in difference.reasons


def test_attributes_of_a_newer_compiler_alone():
    names = [row for row in BASE.attributes if row[0] not in ("SW_WAR", "SPARSE_MMA_MASK")]
    newer = replace(BASE, attributes=(*names, ("SW_WAR", "08000000")))
    assert classify_difference(replace(BASE, attributes=tuple(names)), newer).cls is CodeClass.IDENTICAL
    other = replace(BASE, attributes=(*names, ("SW_WAR", "0c000000")))
    assert classify_difference(newer, other).cls is CodeClass.CHANGED


def test_contents_of_a_constant():
    difference = classify_difference(BASE, normal(SCALE.replace("2.5f}", "2.0f}"), "scale"))
    assert (difference.cls, difference.reasons) == (CodeClass.CHANGED, ("contents of weights differ",))


def test_a_renamed_constant():
    assert classify_difference(BASE, normal(SCALE.replace("weights", "factors"), "scale")).cls is CodeClass.RENAMED


def test_a_constant_exchanged_for_another():
    """The host may set either, though both are zero in the image."""
    two = "__constant__ float a[2], b[2];\n" + SCALE.partition("\n")[2].partition("\n")[2]
    first, second = two.replace("weights", "a"), two.replace("weights", "b")
    assert classify_difference(normal(first, "scale"), normal(second, "scale")).cls is CodeClass.CHANGED


def test_keys_keep_immediates_and_drop_registers():
    first, second = code("IADD3 R1, R2, 0x5, RZ", "@!P3 BRA +4")
    assert mix_key(first) == " IADD3 R, R, 0x5, RZ"
    assert mix_key(second) == "@!P BRA label"
