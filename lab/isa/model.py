"""The instruction model that the PTX and the SASS reader share.

A listing becomes a `Module` of `Function`s. A function is a flat tuple of `Instruction`s whose branch targets are
resolved to positions in that tuple, so that control-flow analysis is the same for both ISAs. All values are frozen.
Positions are indices into `Function.instructions`, from 0; lines count from 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Literal

Isa = Literal["ptx", "sass"]


class InstructionClass(StrEnum):
    """The class of an instruction, with the same names for PTX and SASS."""

    FMA = "fma"  # floating-point multiply-add, any width: fma.rn.f32, mad.f32; FFMA, DFMA, HFMA2
    MMA = "mma"  # tensor cores: mma, wmma.mma, wgmma; HMMA, IMMA, DMMA, HGMMA
    FLOAT = "float"  # other floating-point arithmetic: add, mul, min, max, neg, abs; FADD, FMUL, FMNMX
    SPECIAL = "special"  # special function unit: ex2, lg2, rcp, sqrt, rsqrt, sin, cos, tanh; MUFU
    INTEGER = "integer"  # integer and logic arithmetic, address arithmetic; IADD3, IMAD, LEA, LOP3, SHF
    CONVERT = "convert"  # cvt; F2I, I2F, F2F
    COMPARE = "compare"  # setp, set, selp, slct and predicate logic; ISETP, FSETP, SEL, PLOP3
    MOVE = "move"  # mov, cvta; MOV, IMAD.MOV, CS2R, S2R, S2UR, R2UR, PRMT, vote-free register traffic
    LD_GLOBAL = "ld.global"  # also generic loads: a pointer that the compiler could not place
    ST_GLOBAL = "st.global"
    LD_SHARED = "ld.shared"  # also ldmatrix
    ST_SHARED = "st.shared"  # also stmatrix
    LD_LOCAL = "ld.local"  # in SASS: spills and dynamically indexed arrays
    ST_LOCAL = "st.local"
    LD_CONST = "ld.const"  # constant bank and kernel parameters: ld.param, ld.const; LDC, ULDC
    CP_ASYNC = "cp.async"  # a thread's global to shared copies and their groups; LDGSTS, LDGDEPBAR
    BULK_COPY = "cp.async.bulk"  # copies by the tensor memory accelerator, any direction; UBLKCP, UTMALDG, UTMASTG
    ATOMIC = "atomic"  # atom, red; ATOM, ATOMS, RED
    SHUFFLE = "shuffle"  # shfl, vote, match, redux; SHFL, VOTE, MATCH, REDUX
    BARRIER = "barrier"  # bar, barrier, mbarrier, membar, fence; BAR, DEPBAR, MEMBAR, SYNCS, WARPSYNC
    BRANCH = "branch"  # bra, brx, call, ret, exit; BRA, BRX, CALL, RET, EXIT, BSSY, BSYNC
    OTHER = "other"  # nop, pragma-like, texture, surface and everything not named above


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """The source line of an instruction, according to the compiler (`.loc`, or the cubin's line table)."""

    file: str
    line: int

    @property
    def short(self) -> str:
        """``kernel.cu:12``: the file without its folder, and the line."""
        return f"{PurePosixPath(self.file).name}:{self.line}"


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction of a function.

    Attributes:
        index: Position in `Function.instructions`.
        line: Line of the listing that was read, from 1.
        opcode: With every modifier: ``fma.rn.f32``, ``LDS.128``.
        operands: Split at top-level commas, without white space at either end: ``[%rd1+16]``, ``{%f1, %f2}``.
            Registers of a nested PTX scope have the reader's unique names.
        predicate: Guard register without ``@`` and ``!``, or None.
        negated: Whether the guard is negated.
        cls: Its class, from the table in `lab.isa.classes`.
        targets: Indices to which it can branch; empty for calls, returns and exits.
        falls_through: Whether control can go on to ``index + 1``.
        source: Source line, or None where it is unknown.
        address: SASS: byte offset in the function; None in PTX.
        callers: PTX: the calls into which it was inlined, the innermost one first; empty where it was not.
        live_registers: SASS: live general-purpose registers, where the disassembler counted them; None in PTX.
    """

    index: int
    line: int
    opcode: str
    operands: tuple[str, ...]
    predicate: str | None
    negated: bool
    cls: InstructionClass
    targets: tuple[int, ...] = ()
    falls_through: bool = True
    source: SourceLocation | None = None
    address: int | None = None
    live_registers: int | None = None
    callers: tuple[SourceLocation, ...] = ()


@dataclass(frozen=True, slots=True)
class Variable:
    """A declaration of a PTX variable, parameter or register.

    Attributes:
        name: Unique within the function (nested scopes renamed), or within the module.
        space: ``reg``, ``param``, ``shared``, ``local``, ``global``, ``const`` or ``tex``.
        type: PTX type without the dot: ``f32``, ``b8``, ``pred``.
        count: Number of elements: 4224 for ``.b8 s[4224]``, 39 for ``%r<39>``, None for an unsized array.
        align: Alignment in bytes; by default, the size of the type.
        vector: Elements of a vector type (4 for ``.v4``), else 1.
        initial: Elements of the initialiser as written, for module and constant arrays: numbers or symbol names.
        parameterised: Registers only: declared as ``%r<n>``, which names ``%r0`` … ``%r(n-1)``.
        external: Declared ``.extern`` (in shared space: dynamic shared memory).
        pointer: Parameters only: marked as a pointer (``.ptr``). Many compilers leave pointers unmarked.
        line: Line of the listing, from 1; it does not count in comparisons.
    """

    name: str
    space: str
    type: str
    count: int | None = 1
    align: int | None = None
    vector: int = 1
    initial: tuple[str, ...] = ()
    parameterised: bool = False
    external: bool = False
    pointer: bool = False
    line: int = field(default=0, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Function:
    """A kernel or a device function.

    Attributes:
        name: Symbol, as the compiler mangled it.
        entry: True for a kernel.
        instructions: Its instructions in listing order.
        labels: Maps a label to the index of the instruction behind it (``len(instructions)`` at the end). In PTX,
            labels of nested scopes have the reader's unique names.
        parameters: PTX: declared parameters in order. SASS: empty.
        results: PTX device functions: return parameters.
        variables: PTX: registers, shared and local variables that it declares.
        directives: PTX: performance directives, such as ``{"maxntid": (256, 1, 1)}``.
        tables: PTX: maps the label of a `.branchtargets` or `.calltargets` list to its names.
    """

    name: str
    entry: bool
    instructions: tuple[Instruction, ...]
    labels: dict[str, int] = field(default_factory=dict)
    parameters: tuple[Variable, ...] = ()
    results: tuple[Variable, ...] = ()
    variables: tuple[Variable, ...] = ()
    directives: dict[str, tuple[int, ...]] = field(default_factory=dict)
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Module:
    """The contents of one listing.

    Attributes:
        isa: ``ptx`` or ``sass``.
        version: PTX ISA version (``9.0``), or ``nvdisasm`` with its version.
        target: ``sm_90``.
        functions: Kernels and device functions in listing order.
        variables: PTX: variables of module scope.
        files: Maps the number of a source file to its path (PTX: the `.file` table; SASS: the line table).
    """

    isa: Isa
    version: str
    target: str
    functions: tuple[Function, ...]
    variables: tuple[Variable, ...] = ()
    files: dict[int, str] = field(default_factory=dict)

    @property
    def kernels(self) -> tuple[Function, ...]:
        """The entry functions."""
        return tuple(function for function in self.functions if function.entry)
