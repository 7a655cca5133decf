"""The PTX and SASS opcodes with their instruction classes, and the bytes that loads read.

A table maps an opcode's root (`ld` of `ld.global.f32`, `IMAD` of `IMAD.MOV.U32`) to an `InstructionClass`, or to
a rule over the modifiers after the root. Sources: PTX ISA 9.x, chapter "Instruction Set"; CUDA Binary
Utilities 13.x, chapter "Instruction Set Reference" (Volta to Blackwell).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from lab.base.warp import WARP_SIZE
from lab.isa.model import InstructionClass as C
from lab.isa.model import Isa
from lab.isa.ptx.constants import integer

Modifiers = tuple[str, ...]
Rule = Callable[[Modifiers], C]

_FLOAT_TYPE = re.compile(r"(?:b?f16(?:x2)?|tf32|f32(?:x2)?|f64|e\dm\d(?:x\d)?)\Z")


def _is_float(modifiers: Modifiers) -> bool:
    return any(_FLOAT_TYPE.match(modifier) for modifier in modifiers)


def _by_type(floating: C) -> Rule:
    """Return a rule: `floating` for floating-point types, integer arithmetic for all others."""

    def rule(modifiers: Modifiers) -> C:
        return floating if _is_float(modifiers) else C.INTEGER

    return rule


def _logic(modifiers: Modifiers) -> C:
    return C.COMPARE if "pred" in modifiers else C.INTEGER


def _space(modifiers: Modifiers) -> str:
    """Return the state space of a memory instruction: `shared` for `shared::cluster`, `generic` by default."""
    for modifier in modifiers:
        space = modifier.partition("::")[0]
        if space in {"shared", "local", "const", "param", "global"}:
            return space
    return "generic"


_LOADS: Final = {"shared": C.LD_SHARED, "local": C.LD_LOCAL, "const": C.LD_CONST, "param": C.LD_CONST}
# A store to a call's parameter is a register move once the calling convention is applied.
_STORES: Final = {"shared": C.ST_SHARED, "local": C.ST_LOCAL, "param": C.MOVE}


def _load(modifiers: Modifiers) -> C:
    return _LOADS.get(_space(modifiers), C.LD_GLOBAL)


def _store(modifiers: Modifiers) -> C:
    # st.async and st.bulk write shared memory even where they do not name it.
    if modifiers and modifiers[0] in {"async", "bulk"}:
        return C.ST_SHARED
    return _STORES.get(_space(modifiers), C.ST_GLOBAL)


def _by_first(table: dict[str, C | Rule], default: C) -> Rule:
    """Return a rule for opcodes whose first modifier names the operation: `wmma.load`, `tcgen05.mma`."""

    def rule(modifiers: Modifiers) -> C:
        target = table.get(modifiers[0].partition("::")[0], default) if modifiers else default
        return target if isinstance(target, C) else target(modifiers[1:])

    return rule


def _cp(modifiers: Modifiers) -> C:
    if "bulk" in modifiers:
        return C.BULK_COPY
    return C.CP_ASYNC if "async" in modifiers else C.OTHER


def _roots(names: str, target: C | Rule) -> dict[str, C | Rule]:
    return dict.fromkeys(names.split(), target)


_PTX: Final[dict[str, C | Rule]] = {
    **_roots("fma", C.FMA),
    **_roots("mad", _by_type(C.FMA)),
    **_roots("mma", C.MMA),
    **_roots("wmma", _by_first({"mma": C.MMA, "load": _load, "store": _store}, C.OTHER)),
    **_roots("wgmma", _by_first({"mma_async": C.MMA}, C.BARRIER)),
    **_roots(
        "tcgen05",
        _by_first({"mma": C.MMA, "wait": C.BARRIER, "fence": C.BARRIER, "commit": C.BARRIER}, C.OTHER),
    ),
    **_roots("add sub mul div min max neg abs", _by_type(C.FLOAT)),
    **_roots("copysign", C.FLOAT),
    **_roots("ex2 lg2 rcp rsqrt sqrt sin cos tanh", C.SPECIAL),
    **_roots("and or xor not", _logic),
    **_roots("lop3 cnot shl shr shf bfe bfi bfind brev bmsk szext clz popc fns", C.INTEGER),
    **_roots("rem sad mad24 mul24 addc subc madc dp2a dp4a clmad", C.INTEGER),
    **_roots("vadd vsub vabsdiff vmin vmax vshl vshr vmad", C.INTEGER),
    **_roots("vadd2 vsub2 vavrg2 vabsdiff2 vmin2 vmax2 vadd4 vsub4 vavrg4 vabsdiff4 vmin4 vmax4", C.INTEGER),
    **_roots("cvt", C.CONVERT),
    **_roots("set setp selp slct testp isspacep istypep vset vset2 vset4", C.COMPARE),
    **_roots("mov cvta prmt mapa getctarank movmatrix", C.MOVE),
    **_roots("ld ldu", _load),
    **_roots("st", _store),
    **_roots("ldmatrix", C.LD_SHARED),
    **_roots("stmatrix", C.ST_SHARED),
    **_roots("multimem", _by_first({"ld_reduce": C.LD_GLOBAL, "st": C.ST_GLOBAL, "cp": _cp}, C.ATOMIC)),
    **_roots("cp", _cp),
    **_roots("atom red", C.ATOMIC),
    **_roots("shfl vote match redux activemask elect", C.SHUFFLE),
    **_roots("bar barrier mbarrier membar fence griddepcontrol", C.BARRIER),
    **_roots("bra brx call ret exit trap", C.BRANCH),
    **_roots("tensormap", _by_first({"cp_fenceproxy": C.BARRIER}, C.OTHER)),
    # Named so that the table is complete; an unknown opcode is OTHER too.
    **_roots("nanosleep pmevent brkpt setmaxnreg alloca stacksave stackrestore clusterlaunchcontrol", C.OTHER),
    **_roots("prefetch prefetchu discard applypriority createpolicy", C.OTHER),
    **_roots("tex tld4 txq suld sust sured suq", C.OTHER),
}


def _imad(modifiers: Modifiers) -> C:
    return C.MOVE if modifiers and modifiers[0] == "MOV" else C.INTEGER


_SASS: Final[dict[str, C | Rule]] = {
    **_roots("FFMA FFMA32I FFMA2 DFMA HFMA2 HFMA2_32I FHFMA UFFMA", C.FMA),
    **_roots("HMMA IMMA DMMA BMMA QMMA OMMA HGMMA IGMMA BGMMA QGMMA", C.MMA),
    **_roots("UTCHMMA UTCIMMA UTCQMMA UTCOMMA UTCMXQMMA", C.MMA),
    **_roots("FADD FADD32I FADD2 FMUL FMUL32I FMUL2 FMNMX FMNMX3 FSWZADD FHADD DADD DMUL DMNMX", C.FLOAT),
    **_roots("HADD2 HADD2_32I HMUL2 HMUL2_32I HMNMX2 VHMNMX UFADD UFMUL UFMNMX", C.FLOAT),
    **_roots("MUFU", C.SPECIAL),
    **_roots("IADD IADD3 IADD32I IADD64 IMUL IMUL32I IMNMX IMNMX3 IABS IDP IDP4A ISCADD ISCADD32I", C.INTEGER),
    **_roots("LEA LOP LOP3 LOP32I SHF SHL SHR BMSK BREV FLO POPC SGXT BFE BFI XMAD", C.INTEGER),
    **_roots("VABSDIFF VABSDIFF4 VIADD VIADD2 VIADDMNMX VIMNMX VIMNMX3", C.INTEGER),
    **_roots("UIADD3 UIADD64 UIMAD UIABS UIMNMX UVIADD UVIMNMX UVIADDMNMX ULEA UCLEA", C.INTEGER),
    **_roots("ULOP ULOP3 ULOP32I USHF USHL USHR UBMSK UBREV UFLO UPOPC USGXT UVIRTCOUNT", C.INTEGER),
    **_roots("IMAD", _imad),
    **_roots("F2F F2I I2F I2I I2IP I2FP F2IP F2FP FRND UF2F UF2I UI2F UF2FP UF2IP UI2FP UI2I UI2IP UFRND", C.CONVERT),
    **_roots("FSET FSETP FSEL FCMP FCHK DSET DSETP HSET2 HSETP2 ISET ISETP SEL PLOP3 PSETP PSET CSETP", C.COMPARE),
    **_roots("UFSET UFSETP UFSEL UISETP USEL UPLOP3 UPSETP QSPC", C.COMPARE),
    **_roots("MOV MOV32I MOV64IUR MOVM PRMT CS2R S2R S2UR CS2UR R2UR UMOV UPRMT", C.MOVE),
    **_roots("P2R R2P UP2UR UR2UP B2R R2B LEPC RPCMOV BMOV GETLMEMBASE SETLMEMBASE UMOV32I", C.MOVE),
    **_roots("LDG LD LDGMC", C.LD_GLOBAL),
    **_roots("STG ST", C.ST_GLOBAL),
    **_roots("LDS LDSM ULDS", C.LD_SHARED),
    **_roots("STS STSM STAS USTS", C.ST_SHARED),
    **_roots("LDL", C.LD_LOCAL),
    **_roots("STL", C.ST_LOCAL),
    **_roots("LDC LDCU ULDC", C.LD_CONST),
    **_roots("LDGSTS LDGDEPBAR ARRIVES", C.CP_ASYNC),
    **_roots("UBLKCP UBLKRED UBLKPF UTMALDG UTMASTG UTMAREDG UTMAPF UTMACMDFLUSH", C.BULK_COPY),
    **_roots("ATOM ATOMS ATOMG RED REDG REDAS REDS UREDGR UATOMG", C.ATOMIC),
    **_roots("SHFL VOTE VOTEU MATCH REDUX CREDUX ELECT", C.SHUFFLE),
    **_roots("BAR DEPBAR UDEPBAR MEMBAR ERRBAR CGAERRBAR FENCE SYNCS WARPSYNC WARPGROUP WARPARRIVE", C.BARRIER),
    **_roots("UCGABAR_ARV UCGABAR_WAIT UTCBAR UTMACCTL ACQBULK PREEXIT ACQSHMINIT CCTLBAR ENDCOLLECTIVE", C.BARRIER),
    **_roots("BRA BRX BRXU JMP JMX JMXU CALL RET EXIT BREAK BSSY BSYNC KILL RTT BPT", C.BRANCH),
    # Named so that the table is complete; an unknown opcode is OTHER too.
    **_roots("NOP YIELD NANOSLEEP PMTRIG WARPGROUPSET USETMAXREG USETSHMSZ SETCTAID UGETNEXTWORKID", C.OTHER),
    **_roots("CCTL CCTLL CCTLT UMEMSETS LDT LDTM STT STTM UTCCP UTCSHIFT UTCATOMSWS", C.OTHER),
    **_roots("TEX TLD TLD4 TMML TXD TXQ SULD SUST SURED SUATOM SUQUERY FOOTPRINT PIXLD", C.OTHER),
    **_roots("AL2P ALD AST IPA ISBERD ISBEWR OUT", C.OTHER),
}

TABLES: Final[dict[Isa, dict[str, C | Rule]]] = {"ptx": _PTX, "sass": _SASS}
"""Opcode tables by ISA: the root of an opcode to its class, or to a rule over the modifiers after the root."""


@lru_cache(maxsize=65536)
def _by_opcode(isa: Isa, opcode: str) -> C:
    root, *modifiers = opcode.split(".")
    target = TABLES[isa].get(root, C.OTHER)
    return target if isinstance(target, C) else target(tuple(modifiers))


_HALF_FMA = ("HFMA2", "HFMA2.MMA")
_ZEROS = {"RZ", "-RZ"}


def _is_constant_move(operands: tuple[str, ...]) -> bool:
    """Return whether an HFMA2 with zero factors only moves a constant: `HFMA2 R5, -RZ, RZ, 0, 0`."""
    return len(operands) > 3 and operands[1] in _ZEROS and operands[2] in _ZEROS  # noqa: PLR2004 -- D, A, B, C


def classify(isa: Isa, opcode: str, operands: tuple[str, ...] = ()) -> C:
    """Return the class of one instruction.

    Args:
        isa: ``ptx`` or ``sass``.
        opcode: With every modifier: ``ld.global.v4.f32``, ``IMAD.MOV.U32``.
        operands: The instruction's operands. They matter only for SASS `HFMA2`, which the compiler also uses to load
            a constant.

    Returns:
        The class; `InstructionClass.OTHER` for an opcode that is not in the table.
    """
    if isa == "sass" and opcode.startswith(_HALF_FMA) and _is_constant_move(operands):
        return C.MOVE
    return _by_opcode(isa, opcode)


def _copy_bytes(operands: tuple[str, ...]) -> int:
    """Return the size operand of `destination, source, size`, which is a constant but may not be decimal."""
    try:
        return integer(operands[2])
    except (IndexError, ValueError):
        return 0


_PTX_WIDTH = re.compile(r"(?:[usbf]|bf|tf)(8|16|32|64|128)(?:x(\d))?\Z")
_SASS_WIDTH = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16, "256": 32}


def load_bytes(isa: Isa, opcode: str, operands: tuple[str, ...] = ()) -> int:
    """Return the bytes that one instruction loads per thread.

    The opcode gives the size of loads and matrix loads: type width times vector length, where the 32 threads of a warp
    share the bytes of a matrix evenly. A non-bulk `cp.async` counts with its size operand. Bulk and tensor copies have
    no static size and count as 0, like everything that is not a load.

    Args:
        isa: ``ptx`` or ``sass``.
        opcode: With every modifier.
        operands: The operands; only PTX `cp.async`, whose size is one of them, needs them.
    """
    if isa == "sass":
        return _sass_load_bytes(opcode)
    if opcode.startswith(("cp.async.ca.", "cp.async.cg.")):
        return _copy_bytes(operands)
    return _ptx_load_bytes(opcode)


@lru_cache(maxsize=65536)
def _ptx_load_bytes(opcode: str) -> int:
    root, *modifiers = opcode.split(".")
    if root == "ldmatrix":
        return _matrix_bytes(modifiers)
    width = _type_bytes(modifiers)
    if root == "wmma" and modifiers[:1] == ["load"]:
        return _fragment_bytes(modifiers, width)
    lanes = next((int(modifier[1:]) for modifier in modifiers if modifier in {"v2", "v4", "v8"}), 1)
    return lanes * width if root in {"ld", "ldu"} or modifiers[:1] == ["ld_reduce"] else 0


def _type_bytes(modifiers: list[str]) -> int:
    """Return the size of the last type named in an opcode: 4 for `ld.global.v4.f32`."""
    for modifier in reversed(modifiers):
        if match := _PTX_WIDTH.match(modifier):
            return int(match[1]) // 8 * int(match[2] or 1)
    return 0


def _matrix_bytes(modifiers: list[str]) -> int:
    """Return the bytes per thread of `ldmatrix`: 128 for 8x8 of 16 bits, 256 for 16x16 bytes, 128 for 8x16 bytes."""
    count = next((int(modifier[1:]) for modifier in modifiers if modifier in {"x1", "x2", "x4"}), 1)
    return count * (256 if "m16n16" in modifiers else 128) // WARP_SIZE


_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)\Z")
_BITS = {"s4": 4, "u4": 4, "b1": 1}


def _fragment_bytes(modifiers: list[str], width: int) -> int:
    """Return the bytes per thread of `wmma.load.{a,b,c}`: m x k, k x n or m x n elements, spread over a warp."""
    shape = next((match for modifier in modifiers if (match := _SHAPE.match(modifier))), None)
    if shape is None:
        return 0
    m, n, k = (int(shape[position]) for position in (1, 2, 3))
    elements = {"a": m * k, "b": k * n, "c": m * n}.get(modifiers[1], 0)
    return elements * _BITS.get(modifiers[-1], width * 8) // (8 * WARP_SIZE)


_SASS_LOADS = {"LD", "LDG", "LDS", "LDGMC", "LDGSTS", "LDL", "LDC", "LDCU", "ULDC", "ULDS"}


@lru_cache(maxsize=65536)
def _sass_load_bytes(opcode: str) -> int:
    root, *modifiers = opcode.split(".")
    if root == "LDSM":
        return bytes_per_lane(opcode)
    if root not in _SASS_LOADS:
        return 0
    return next((_SASS_WIDTH[modifier] for modifier in modifiers if modifier in _SASS_WIDTH), 4)


_BYTES_PER_LANE = {"64": 8, "128": 16, "2": 8, "4": 16}  # the last two: matrices of LDSM and STSM
_WAVEFRONT_BYTES = 128
_WIDE_MATRIX = re.compile(r"\.MT?1616\b")  # of 256 bytes; 8x8 of 16 bits, 8x16 and 16x8 of 8 bits have 128


def bytes_per_lane(opcode: str) -> int:
    """Return the access width per lane of a SASS load, store or copy: 4, 8 or 16; narrower ones count as 4."""
    width = max((_BYTES_PER_LANE.get(modifier, 4) for modifier in opcode.split(".")[1:]), default=4)
    return 2 * width if _WIDE_MATRIX.search(opcode) else width


def least_wavefronts(opcode: str) -> int:
    """Return the minimum number of wavefronts of a SASS shared-memory access, over all addresses of its lanes.

    Lanes that load the same address share a wavefront. A matrix has eight distinct rows: `LDSM.16.MT88.4` takes four.
    """
    if opcode.partition(".")[0] not in ("LDSM", "STSM"):
        return 1
    return bytes_per_lane(opcode) * WARP_SIZE // _WAVEFRONT_BYTES
