"""Class of the difference between two kernels: identical, renamed, rescheduled, equivalent mix or changed.

identical
    The same instructions, scheduling bits, attributes, resources and constants.
renamed
    The same in the same order, under a one-to-one renaming of registers, predicates, barriers and symbols. A register
    that belongs to a vector keeps its place in it.
rescheduled
    The same instructions in another order, or with other scheduling bits. Instructions are the same if their operands
    come from the same instructions; stores, atomics, barriers and branches keep their order.
equivalent mix
    As many instructions of each opcode, with the same immediates and constants, but other data flow.
changed
    Anything else, including launch bounds, attributes, or the contents of a constant.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Final

from lab.diff.normal import NormalInstruction, NormalKernel, lasting_attributes
from lab.isa.classes import classify
from lab.isa.model import InstructionClass
from lab.toolchain.cubin.image import CubinKernel


class CodeClass(StrEnum):
    """The class of a difference, from none to any."""

    IDENTICAL = "identical"
    RENAMED = "renamed"
    RESCHEDULED = "rescheduled"
    EQUIVALENT = "equivalent mix"
    CHANGED = "changed"

    @property
    def harmless(self) -> bool:
        """Return whether the machine does the same in the same order."""
        return self in (CodeClass.IDENTICAL, CodeClass.RENAMED)


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference between two kernels.

    Attributes:
        cls: The class.
        reasons: Phrases, the decisive one first; empty for identical kernels.
    """

    cls: CodeClass
    reasons: tuple[str, ...] = ()


_TOKEN = re.compile(r"(?<![\w.])(?:(U?R)(\d+)|(U?P)(\d+)|(B)(\d+)|<([^<>]*)>)(?![\w])")
_REASONS: Final = 6
"""Most opcodes and constants that a reason names."""

_SCALAR: Final = frozenset(
    """
    FFMA FADD FMUL FMNMX FSEL FSET FSETP FCHK FSWZADD HADD2 HMUL2 HFMA2 HSETP2 HMNMX2 IADD3 IMAD ISCADD IABS IMNMX ICMP
    ISETP I2FP VIADD VIMNMX VIADDMNMX LOP LOP3 SHF SHL SHR LEA SEL PRMT MOV POPC FLO BREV BMSK SGXT SHFL MATCH VOTE
    VOTEU S2R S2UR R2UR P2R R2P BAR UMOV UIADD3 UIMAD UISETP ULOP3 USHF ULEA USEL UPRMT UFLO UPOPC
    """.split()  # noqa: SIM905 - a table of names
)
"""Opcodes whose registers are single, without a width among their modifiers."""
_WIDTHS: Final = {"64": 2, "128": 4, "WIDE": 2, "256": 8}
_ANY_WIDTH: Final = 4
"""Registers of an operand of an opcode that is not listed."""
_VERY_WIDE: Final = (
    "HGMMA",
    "IGMMA",
    "QGMMA",
    "BGMMA",
    "UTC",
    "LDTM",
    "STTM",
    "WARPGROUP",
    "TEX",
    "TLD",
    "SULD",
    "SUST",
)


def classify_difference(base: NormalKernel, head: NormalKernel) -> Difference:
    """Return the class of the difference between two kernels, and its reasons."""
    code, renaming = _code_class(base.instructions, head.instructions)
    if any(old != new and (old in head.names or new in base.names) for old, new in renaming.items()):
        code, renaming = CodeClass.CHANGED, {}  # another variable: the host may set either
    facts = [*_attribute_reasons(base, head), *_data_reasons(base, head, renaming)]
    facts += _resource_reasons(base, head) if code.harmless else ()
    if code.harmless and facts:
        return Difference(CodeClass.CHANGED, tuple(facts))
    if code is CodeClass.IDENTICAL:
        return Difference(code)
    if any(fact for fact in facts):
        code = CodeClass.CHANGED
    return Difference(code, (*_code_reasons(code, base.instructions, head.instructions), *facts))


def mix_key(instruction: NormalInstruction) -> str:
    """Return an instruction without its registers and branch distances, with its immediates and constants."""
    operands = instruction.operands
    if classify("sass", instruction.opcode) is InstructionClass.BRANCH:
        operands = tuple("label" if operand[:1] in "+-" else operand for operand in operands)
    text = f"{instruction.guard.rstrip('0123456789')} {instruction.opcode} {', '.join(operands)}"
    return _TOKEN.sub(lambda match: match[1] or match[3] or match[5] or match[0], text)


def _code_class(
    base: Sequence[NormalInstruction], head: Sequence[NormalInstruction]
) -> tuple[CodeClass, Mapping[str, str]]:
    """Return the class of the instructions alone, and the renaming of symbols behind it."""
    same_text = [(i.guard, i.opcode, i.operands) for i in base] == [(i.guard, i.opcode, i.operands) for i in head]
    same_control = [i.control for i in base] == [i.control for i in head]
    if same_text:
        if any(_hidden(i, j) for i, j in zip(base, head, strict=True)):
            return CodeClass.CHANGED, {}
        return (CodeClass.IDENTICAL if same_control else CodeClass.RESCHEDULED), {}
    renaming = _renaming(base, head)
    if renaming is not None:
        return (CodeClass.RENAMED if same_control else CodeClass.RESCHEDULED), renaming
    if Counter(map(mix_key, base)) != Counter(map(mix_key, head)):
        return CodeClass.CHANGED, {}
    return (CodeClass.RESCHEDULED if _signature(base) == _signature(head) else CodeClass.EQUIVALENT), {}


def _hidden(base: NormalInstruction, head: NormalInstruction) -> bool:
    """Return whether two instructions of one text are encoded unlike, without an address that explains it."""
    named = any("<" in operand or "&" in operand or ".nv." in operand for operand in base.operands)
    return base.encoding != head.encoding and not named and not any("$" in operand for operand in base.operands)


def _renaming(base: Sequence[NormalInstruction], head: Sequence[NormalInstruction]) -> dict[str, str] | None:
    """Return the one-to-one renaming that makes two sequences equal, symbols alone; None if there is none."""
    renaming = _Renaming()
    if len(base) != len(head) or not all(renaming.add(old, new) for old, new in zip(base, head, strict=True)):
        return None
    return renaming.symbols() if renaming.keeps_vectors() else None


class _Renaming:
    """A one-to-one renaming of registers, predicates, barriers and symbols that grows by pairs of instructions."""

    def __init__(self) -> None:
        self._forward: dict[str, str] = {}
        self._backward: dict[str, str] = {}
        self._operands: list[tuple[str, int, str, int, int]] = []
        self._very_wide = False

    def add(self, old: NormalInstruction, new: NormalInstruction) -> bool:
        """Return whether two instructions are the same under the renaming so far, and extend it."""
        if old.opcode != new.opcode or len(old.operands) != len(new.operands):
            return False
        self._very_wide |= old.opcode.startswith(_VERY_WIDE)
        texts = zip((old.guard, *old.operands), (new.guard, *new.operands), strict=True)
        return all(self._add_operand(before, after, _width(old.opcode)) for before, after in texts)

    def _add_operand(self, before: str, after: str, width: int) -> bool:
        if _TOKEN.sub(_kind, before) != _TOKEN.sub(_kind, after):
            return False
        for first, second in zip(_TOKEN.finditer(before), _TOKEN.finditer(after), strict=True):
            if self._forward.setdefault(first[0], second[0]) != second[0]:
                return False
            if self._backward.setdefault(second[0], first[0]) != first[0]:
                return False
            if first[1]:
                address = f"[{first[0]}" in before
                own = 2 if f"{first[0]}.64" in before else 1 if address else width
                self._operands.append((first[1], int(first[2]), second[1], int(second[2]), own))
        return True

    def keeps_vectors(self) -> bool:
        """Return whether registers that an operand spans are renamed together."""
        if self._very_wide and any(old != new for old, new in self._forward.items() if old[0] != "<"):
            return False
        return all(
            self._forward.get(f"{kind}{old + step}", f"{other}{new + step}") == f"{other}{new + step}"
            and self._backward.get(f"{other}{new + step}", f"{kind}{old + step}") == f"{kind}{old + step}"
            for kind, old, other, new, width in self._operands
            for step in range(1, width)
        )

    def symbols(self) -> dict[str, str]:
        """Return the renaming of symbols alone."""
        return {old[1:-1]: new[1:-1] for old, new in self._forward.items() if old[0] == "<"}


def _kind(match: re.Match[str]) -> str:
    return match[1] or match[3] or match[5] or "<>"


def _width(opcode: str) -> int:
    """Return the most registers that an operand of an opcode may span."""
    root, *modifiers = opcode.split(".")
    widths = [_WIDTHS[modifier] for modifier in modifiers if modifier in _WIDTHS]
    if widths:
        return max(widths)
    if root in _SCALAR:
        return 1
    if root.startswith(("LD", "ST", "ATOM", "RED", "LDG", "MUFU", "I2F", "F2I", "F2F")) and root not in (
        "LDSM",
        "STSM",
    ):
        return 1 if not {"F64", "S64", "U64", "64H"} & set(modifiers) else 2
    return _ANY_WIDTH


_ORDERED: Final = frozenset(
    {InstructionClass.ST_GLOBAL, InstructionClass.ST_SHARED, InstructionClass.ST_LOCAL, InstructionClass.ATOMIC}
    | {InstructionClass.BARRIER, InstructionClass.BRANCH, InstructionClass.CP_ASYNC, InstructionClass.BULK_COPY}
)
_ROUNDS: Final = 4
"""Rounds after which the colour of an instruction depends on all instructions that many steps above it."""


def _signature(code: Sequence[NormalInstruction]) -> tuple[Counter[int], list[int]]:
    """Return the instructions by the values that they read, in any order, and those with effects in their order."""
    uses = list(_uses(code))
    colours = [hash(mix_key(instruction)) for instruction in code]
    for _ in range(_ROUNDS):
        colours = [
            hash(
                (
                    colours[place],
                    *(colours[definition] if definition >= 0 else definition for definition in uses[place]),
                )
            )
            for place in range(len(code))
        ]
    effects = [colours[place] for place, i in enumerate(code) if classify("sass", i.opcode, i.operands) in _ORDERED]
    return Counter(colours), effects


def _uses(code: Sequence[NormalInstruction]) -> Iterator[tuple[int, ...]]:
    """Yield, for each instruction, the place of the nearest earlier instruction that sets each register it reads.

    -1 stands for none. Width is taken from the opcode, so a vector's later registers belong to its instruction.
    """
    setter: dict[str, int] = {}
    for place, instruction in enumerate(code):
        targets, sources = _split_operands(instruction)
        yield tuple(setter.get(source, -1) for source in sources)
        width = _width(instruction.opcode)
        for target in targets:
            kind, number = re.fullmatch(r"(U?[RPB])(\d+)", target).groups()  # type: ignore[union-attr]
            for step in range(width if kind in ("R", "UR") else 1):
                setter[f"{kind}{int(number) + step}"] = place


def _split_operands(instruction: NormalInstruction) -> tuple[list[str], list[str]]:
    """Return the registers that an instruction sets, and those that it reads, guard included.

    Destinations lead: predicates first, then a register, then carries. Stores, branches and barriers have none, and
    comparisons set predicates alone.
    """
    cls = classify("sass", instruction.opcode, instruction.operands)
    root = instruction.opcode.partition(".")[0]
    sets_none = cls in _ORDERED and cls is not InstructionClass.ATOMIC
    sets_register = "SETP" not in root and root not in ("PLOP3", "UPLOP3", "R2P")
    targets: list[str] = []
    sources = [match[0] for match in _TOKEN.finditer(instruction.guard)]
    leading, after = not sets_none, False
    for operand in instruction.operands:
        tokens = [match[0] for match in _TOKEN.finditer(operand) if match[7] is None]
        is_predicate = bool(re.fullmatch(r"U?P(?:\d+|T)", operand))
        is_register = bool(re.fullmatch(r"U?R(?:\d+|Z)", operand))
        if leading and is_predicate:
            targets += tokens
        elif leading and is_register and sets_register and not after:
            targets += tokens
            after = True
        else:
            leading = False
            sources += tokens
    return targets, sources


def _code_reasons(
    cls: CodeClass, base: Sequence[NormalInstruction], head: Sequence[NormalInstruction]
) -> Iterator[str]:
    """Yield what differs in the instructions."""
    if cls is CodeClass.RENAMED:
        yield "registers or symbols have other names"
    elif cls is CodeClass.EQUIVALENT:
        yield "the same opcodes and constants, other data flow"
    elif cls is CodeClass.RESCHEDULED:
        moved = sum(mix_key(i) != mix_key(j) for i, j in zip(base, head, strict=True))
        control = sum(i.control != j.control for i, j in zip(base, head, strict=True))
        yield f"{moved} instructions moved" if moved else f"scheduling bits alone, in {control} instructions"
    opcodes = Counter(i.opcode for i in head)
    opcodes.subtract(Counter(i.opcode for i in base))
    if changes := {opcode: n for opcode, n in opcodes.items() if n}:
        yield _brief([f"{n:+d} {opcode}" for opcode, n in sorted(changes.items(), key=lambda item: -abs(item[1]))])
    elif cls is CodeClass.CHANGED:
        yield from _immediates(base, head)


def _immediates(base: Sequence[NormalInstruction], head: Sequence[NormalInstruction]) -> Iterator[str]:
    """Yield the immediates and constants that differ between sequences of the same opcodes."""
    before, after = Counter(map(mix_key, base)), Counter(map(mix_key, head))
    gone, new = sorted((before - after).elements()), sorted((after - before).elements())
    if not gone and not new and len(base) == len(head):
        other = sum(i.text != j.text for i, j in zip(base, head, strict=True))
        count = sum(_hidden(i, j) for i, j in zip(base, head, strict=True))
        if other:
            yield f"{other} instructions have other registers"
        elif count:
            yield f"{count} instructions are encoded in another way than the listing shows"
        return
    pairs = []
    for old, now in zip(gone, new, strict=False):
        words = [(a.rstrip(","), b.rstrip(",")) for a, b in zip(old.split(), now.split(), strict=False) if a != b]
        pairs.append(f"{_opcode(old)}: {' '.join(f'{a} -> {b}' for a, b in words[:2])}")
    if pairs:
        yield f"immediates: {_brief(pairs)}"


def _opcode(key: str) -> str:
    words = key.split()
    return words[1] if words[0].startswith("@") else words[0]


def _brief(phrases: Sequence[str]) -> str:
    more = len(phrases) - _REASONS
    return ", ".join(phrases[:_REASONS]) + (f" and {more} more" if more > 0 else "")


_OF_COMPILER: Final = frozenset(
    {"SW_WAR", "SPARSE_MMA_MASK", "attribute 0x5f", "attribute 0x66", "attribute 0x6b", "attribute 0x6d"}
)
"""Attributes that only newer compilers write. They differ in meaning only where both kernels have them."""
_THREADS: Final = {"MAX_THREADS": "launch bound", "REQNTID": "required block"}


def _attribute_reasons(base: NormalKernel, head: NormalKernel) -> Iterator[str]:
    before, after = Counter(lasting_attributes(base)), Counter(lasting_attributes(head))
    names = {name for name, _ in (before - after) + (after - before)}
    derived = {"REGCOUNT", "FRAME_SIZE", "MIN_STACK_SIZE", "MAX_STACK_SIZE", "NUM_BARRIERS"}  # among the resources
    known = dict(lasting_attributes(base)).keys() & dict(lasting_attributes(head)).keys()
    for name in sorted(names - derived - (_OF_COMPILER - known)):
        old = ", ".join(_shown(name, value) for key, value in lasting_attributes(base) if key == name) or "none"
        new = ", ".join(_shown(name, value) for key, value in lasting_attributes(head) if key == name) or "none"
        yield f"{_THREADS.get(name, name)}: {old} -> {new}"


def _resource_reasons(base: NormalKernel, head: NormalKernel) -> Iterator[str]:
    """Yield the resources that differ between kernels of one code."""
    for field in fields(CubinKernel):
        before, after = getattr(base.resources, field.name), getattr(head.resources, field.name)
        if before != after:
            yield f"{field.name.replace('_', ' ')}: {before} -> {after}"


def _shown(name: str, value: str) -> str:
    payload = bytes.fromhex(value) if not value.startswith("0x") else b""
    if name in _THREADS and len(payload) == 12:  # noqa: PLR2004 - three extents
        return "x".join(map(str, struct.unpack("<III", payload)))
    if name == "MAXREG_COUNT" and len(payload) == 2:  # noqa: PLR2004 - a half word
        return str(int.from_bytes(payload, "little"))
    return value if len(value) <= 24 else f"{value[:24]}..."  # noqa: PLR2004 - a column's width


def _data_reasons(base: NormalKernel, head: NormalKernel, renaming: Mapping[str, str]) -> Iterator[str]:
    """Yield the variables and constant banks whose contents differ, under a renaming of symbols."""
    before = {renaming.get(name, name): content for name, content in base.data.items()}
    for name in sorted(before.keys() | head.data.keys()):
        if before.get(name) != head.data.get(name) and name in before and name in head.data:
            yield f"contents of {name} differ"
        elif name not in head.data or name not in before:
            yield f"{name} is {'no longer read' if name in before else 'newly read'}"
