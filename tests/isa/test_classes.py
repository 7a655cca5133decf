from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab.isa.classes import TABLES, bytes_per_lane, classify, least_wavefronts, load_bytes
from lab.isa.model import InstructionClass, Isa

PTX = {
    "fma": "fma.rn.f32 fma.rn.ftz.f32 fma.rn.f64 fma.rn.f16x2 fma.rn.relu.bf16x2 fma.rn.f32x2 mad.f32 mad.rn.f64",
    "mma": "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 "
    "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 tcgen05.mma.cta_group::1.kind::f16 "
    "mma.sp.sync.aligned.m16n8k32",
    "float": "add.f32 add.rn.f16x2 sub.f64 mul.bf16 mul.rn.f32x2 div.rn.f32 div.full.f32 min.f32 max.NaN.f16 "
    "neg.f32 abs.f64 copysign.f32 add.rn.f32.bf16",
    "special": "ex2.approx.ftz.f32 lg2.approx.f32 rcp.rn.f32 rsqrt.approx.f32 sqrt.rn.f64 sin.approx.f32 "
    "cos.approx.f32 tanh.approx.f32 ex2.approx.ftz.bf16x2",
    "integer": "add.s32 add.cc.u32 addc.u32 sub.s64 mul.lo.s32 mul.wide.u32 mad.lo.s32 mad.wide.s32 mad.hi.cc.u32 "
    "madc.lo.u32 div.s32 rem.u32 min.s32 max.u64 neg.s32 abs.s32 sad.u32 and.b32 or.b64 xor.b32 not.b32 "
    "cnot.b32 shl.b32 shr.s32 shf.l.wrap.b32 lop3.b32 bfe.u32 bfi.b32 bfind.u32 brev.b32 clz.b32 popc.b32 "
    "fns.b32 bmsk.clamp.b32 szext.wrap.s32 dp4a.u32.u32 dp2a.lo.s32.s32 mul24.lo.s32 mad24.lo.u32 "
    "vadd.s32.s32.s32 vabsdiff4.u32.u32.u32 add.u16x2",
    "convert": "cvt.rn.f32.s32 cvt.u32.u64 cvt.rn.f16x2.f32 cvt.pack.sat.u8.s32.b32",
    "compare": "setp.lt.s32 setp.eq.and.f32 set.gt.u32.f32 selp.f32 slct.f32.s32 testp.finite.f32 and.pred or.pred "
    "xor.pred not.pred isspacep.global vset.s32.u32.lt",
    "move": "mov.u32 mov.b64 mov.pred cvta.to.global.u64 cvta.shared.u64 prmt.b32 mapa.shared::cluster.u32 "
    "getctarank.u32 movmatrix.sync.aligned.m8n8.trans.b16 st.param.b32 st.param.v2.f32",
    "ld.global": "ld.global.f32 ld.global.nc.v4.f32 ld.f32 ld.v2.f64 ld.relaxed.gpu.global.u32 ld.volatile.u32 "
    "ldu.global.f32 ld.global.L1::evict_last.L2::128B.f32 multimem.ld_reduce.relaxed.sys.global.add.f32 "
    "wmma.load.a.sync.aligned.row.m16n16k16.global.f16",
    "st.global": "st.global.f32 st.f32 st.global.v4.u32 st.release.gpu.global.u32 multimem.st.relaxed.sys.global.f32 "
    "wmma.store.d.sync.aligned.row.m16n16k16.f32",
    "ld.shared": "ld.shared.f32 ld.shared::cluster.u32 ld.shared::cta.v4.f32 ld.volatile.shared.u32 "
    "ldmatrix.sync.aligned.m8n8.x4.shared.b16 wmma.load.b.sync.aligned.col.m16n16k16.shared::cta.f16",
    "st.shared": "st.shared.f32 st.shared::cluster.v2.f32 stmatrix.sync.aligned.m8n8.x4.shared.b16 "
    "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 st.bulk.weak.shared::cta",
    "ld.local": "ld.local.f32 ld.local.v4.u32",
    "st.local": "st.local.f32",
    "ld.const": "ld.const.f32 ld.param.u64 ld.param::entry.u32 ld.param.v4.f32",
    "cp.async": "cp.async.ca.shared.global cp.async.cg.shared.global.L2::128B cp.async.commit_group "
    "cp.async.wait_group cp.async.wait_all cp.async.mbarrier.arrive.noinc.shared.b64",
    "cp.async.bulk": "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes cp.async.bulk.commit_group "
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
    "cp.reduce.async.bulk.global.shared::cta",
    "atomic": "atom.global.add.f32 atom.shared.cas.b32 red.global.add.u32 red.async.relaxed.cluster "
    "multimem.red.relaxed.sys",
    "shuffle": "shfl.sync.bfly.b32 vote.sync.any.pred match.any.sync.b32 redux.sync.add.s32 activemask.b32 elect.sync",
    "barrier": "bar.sync bar.warp.sync barrier.sync barrier.cluster.arrive mbarrier.init.shared.b64 "
    "mbarrier.try_wait.parity.shared::cta.b64 membar.gl fence.proxy.async fence.sc.cta "
    "wgmma.fence.sync.aligned wgmma.commit_group.sync.aligned wgmma.wait_group.sync.aligned "
    "griddepcontrol.wait tcgen05.wait::ld.sync.aligned tcgen05.commit.cta_group::1",
    "branch": "bra bra.uni brx.idx call call.uni ret ret.uni exit trap",
    "other": "nanosleep.u32 prefetch.global.L2 tex.2d.v4.f32.f32 suld.b.1d.b32 setmaxnreg.inc.sync.aligned.u32 "
    "brkpt frobnicate tcgen05.alloc.cta_group::1.sync.aligned",
}

SASS = {
    "fma": "FFMA FFMA.FTZ FFMA32I FFMA2 DFMA HFMA2 HFMA2.BF16_V2 HFMA2.MMA UFFMA",
    "mma": "HMMA.16816.F32 IMMA.16832.S8.S8 DMMA.8x8x4 HGMMA.64x256x16.F32 QGMMA.64x64x32.F32 UTCHMMA OMMA.SF",
    "float": "FADD FADD.FTZ FMUL FMNMX FMNMX3 DADD DMUL HADD2 HMUL2.BF16_V2 HADD2.F32 FADD2 FSWZADD UFADD",
    "special": "MUFU.RCP MUFU.EX2 MUFU.TANH",
    "integer": "IADD3 IADD3.X IMAD IMAD.WIDE.U32 IMAD.SHL.U32 IMAD.IADD IMAD.X IMAD.HI.U32 LEA LEA.HI.X LOP3.LUT "
    "SHF.R.U32.HI ISCADD BREV FLO.U32 POPC IABS IMNMX VIADD VIADDMNMX VIMNMX.U32 SGXT BMSK IDP.4A.U8.U8 "
    "UIADD3 UIADD3.64 UIMAD.WIDE ULEA ULOP3.LUT USHF.L.U32 UPOPC",
    "convert": "F2F.F64.F32 F2I.FTZ.U32.TRUNC.NTZ I2F.U32.RP I2FP.F32.S32 F2FP.F16.F32.PACK_AB FRND.FLOOR I2I.U8.S32 "
    "UI2F",
    "compare": "ISETP.GE.AND FSETP.GT.AND FSET.BF.GT.AND FSEL SEL PLOP3.LUT DSETP.NE.AND HSETP2.GT.AND FCHK "
    "UISETP.NE.AND USEL UPLOP3.LUT",
    "move": "MOV MOV32I IMAD.MOV.U32 IMAD.MOV CS2R CS2R.32 S2R S2UR R2UR UMOV PRMT UPRMT P2R R2P MOVM.16.MT88 "
    "BMOV.32.CLEAR LEPC",
    "ld.global": "LDG.E LDG.E.128 LDG.E.64.CONSTANT LD.E LD.E.STRONG.GPU",
    "st.global": "STG.E STG.E.128 ST.E",
    "ld.shared": "LDS LDS.128 LDS.U8 LDSM.16.M88.4 LDSM.16.MT88.2",
    "st.shared": "STS STS.64 STSM.16.M88.4 STAS",
    "ld.local": "LDL LDL.LU LDL.64",
    "st.local": "STL STL.64",
    "ld.const": "LDC LDC.64 ULDC ULDC.64 LDCU LDCU.128",
    "cp.async": "LDGSTS.E.BYPASS.128 LDGDEPBAR ARRIVES.LDGSTSBAR.64",
    "cp.async.bulk": "UBLKCP UBLKRED.ADD UTMALDG.2D UTMASTG.2D UTMACMDFLUSH",
    "atomic": "ATOM.E.ADD ATOMS.ADD ATOMG.E.ADD.STRONG.GPU RED.E.ADD.F32.FTZ.RN.STRONG.GPU REDG.E.ADD.STRONG.GPU",
    "shuffle": "SHFL.BFLY VOTE.ANY VOTEU.ANY MATCH.ANY REDUX.SUM CREDUX.MAX ELECT",
    "barrier": "BAR.SYNC.DEFER_BLOCKING DEPBAR.LE MEMBAR.ALL.GPU ERRBAR SYNCS.PHASECHK.TRANS64.TRYWAIT WARPSYNC "
    "WARPSYNC.ALL FENCE.VIEW.ASYNC.S WARPGROUP.ARRIVE UCGABAR_ARV UTCBAR",
    "branch": "BRA BRA.U BRA.DIV BRX BRXU CALL.REL.NOINC RET.REL.NODEC EXIT BSSY BSSY.RECONVERGENT BSYNC BREAK JMP "
    "KILL BPT.TRAP",
    "other": "NOP YIELD NANOSLEEP TEX.LL CCTL.IVALL SULD.P.1D FROBNICATE",
}


def _cases(table: dict[str, str]) -> list[tuple[str, str]]:
    return [(opcode, cls) for cls, opcodes in table.items() for opcode in opcodes.split()]


@pytest.mark.parametrize(("opcode", "cls"), _cases(PTX))
def test_ptx_families(opcode: str, cls: str) -> None:
    assert classify("ptx", opcode) == cls


@pytest.mark.parametrize(("opcode", "cls"), _cases(SASS))
def test_sass_families(opcode: str, cls: str) -> None:
    assert classify("sass", opcode) == cls


@pytest.mark.parametrize("table", [PTX, SASS])
def test_every_class_has_a_family(table: dict[str, str]) -> None:
    assert set(table) == set(InstructionClass)


@pytest.mark.parametrize(
    ("operands", "cls"),
    [
        (("R5", "-RZ", "RZ", "0", "0"), "move"),
        (("R5", "-RZ", "RZ", "1.875", "0"), "move"),
        (("R5", "R2", "RZ", "0", "0"), "fma"),
        (("R5", "RZ", "R2", "0"), "fma"),
        (("R5", "RZ", "RZ", "R4"), "move"),
        (("R5", "RZ", "RZ"), "fma"),
        (("R2", "R2", "R11", "R10"), "fma"),
        (("R5",), "fma"),
    ],
)
def test_half_fma_that_moves_a_constant(operands: tuple[str, ...], cls: str) -> None:
    assert classify("sass", "HFMA2.MMA", operands) == cls
    assert classify("sass", "HFMA2", operands) == cls


def test_golden_listings_hold_no_unknown_opcode() -> None:
    golden = Path(__file__).parent / "golden"
    sass = {opcode for f in golden.glob("sm_*.json") for opcode in re.findall(r'"opcode":"(\w+)', f.read_text())}
    assert sass
    assert sass <= set(TABLES["sass"])


@pytest.mark.parametrize(
    ("isa", "opcode", "operands", "expected"),
    [
        ("ptx", "ld.shared.f32", (), 4),
        ("ptx", "ld.shared.v4.f32", (), 16),
        ("ptx", "ld.global.nc.L1::no_allocate.L2::128B.v2.f64", (), 16),
        ("ptx", "ld.global.v8.f32", (), 32),
        ("ptx", "ld.global.b128", (), 16),
        ("ptx", "ld.u8", (), 1),
        ("ptx", "ld.global.v2.b16", (), 4),
        ("ptx", "ldmatrix.sync.aligned.m8n8.x4.shared.b16", (), 16),
        ("ptx", "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16", (), 4),
        ("ptx", "ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8", (), 16),
        ("ptx", "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16", ("{}", "[%r1]"), 16),
        ("ptx", "wmma.load.c.sync.aligned.row.m16n16k16.shared.f32", (), 32),
        ("ptx", "wmma.load.b.sync.aligned.col.m8n8k128.shared.b1", (), 4),
        ("ptx", "cp.async.cg.shared.global", ("[%r1]", "[%rd1]", "16"), 16),
        ("ptx", "cp.async.ca.shared.global", ("[%r1]", "[%rd1]", "0x4", "%r2"), 4),
        ("ptx", "cp.async.ca.shared.global", ("[%r1]",), 0),
        ("ptx", "cp.async.commit_group", (), 0),
        ("ptx", "st.shared.f32", (), 0),
        ("ptx", "add.f32", (), 0),
        ("ptx", "ld.global", (), 0),
        ("ptx", "ld.global.bf16x2", (), 4),
        ("ptx", "ldu.global.v2.u8", (), 2),
        ("ptx", "multimem.ld_reduce.relaxed.sys.global.add.v4.f32", (), 16),
        ("ptx", "multimem.red.relaxed.sys.global.add.f32", (), 0),
        ("ptx", "ldmatrix.sync.aligned.m8n8.shared.b16", (), 4),
        ("ptx", "ldmatrix.sync.aligned.m8n8.x2.shared.b16", (), 8),
        ("ptx", "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8", (), 8),
        ("ptx", "ldmatrix.sync.aligned.m8n16.x4.shared.b8x16.b6x16_p32", (), 16),
        ("ptx", "wmma.load.a.sync.aligned.row.m32n8k16.shared.f16", (), 32),
        ("ptx", "wmma.load.b.sync.aligned.row.m32n8k16.shared.f16", (), 8),
        ("ptx", "wmma.load.c.sync.aligned.row.m32n8k16.shared.f32", (), 32),
        ("ptx", "wmma.load.d.sync.aligned.row.m32n8k16.shared.f32", (), 0),
        ("ptx", "wmma.load.a.sync.aligned.row.m8n8k32.shared.s4", (), 4),
        ("ptx", "wmma.load.a.sync.aligned.row.m8n8k128.shared.b1", (), 4),
        ("ptx", "wmma.load", (), 0),
        ("ptx", "wmma.store.d.sync.aligned.row.m16n16k16.shared.f32", (), 0),
        ("sass", "LDSM.16.M88.2", (), 8),
        ("sass", "LDSM", (), 4),
        ("sass", "LDS", (), 4),
        ("sass", "LDS.64", (), 8),
        ("sass", "LDS.128", (), 16),
        ("sass", "LDS.U8", (), 1),
        ("sass", "LDS.S16", (), 2),
        ("sass", "LDG.E.64.CONSTANT", (), 8),
        ("sass", "LDG.E.ENL2.256", (), 32),
        ("sass", "LDSM.16.M88.4", (), 16),
        ("sass", "LDSM.16.M88", (), 4),
        ("sass", "LDSM.8.MT1616.2", (), 16),
        ("sass", "LDGSTS.E.BYPASS.128", (), 16),
        ("sass", "LDGSTS.E", (), 4),
        ("sass", "LDGDEPBAR", (), 0),
        ("sass", "STS.128", (), 0),
    ],
)
def test_load_bytes(isa: Isa, opcode: str, operands: tuple[str, ...], expected: int) -> None:
    assert load_bytes(isa, opcode, operands) == expected


@pytest.mark.parametrize(
    ("opcode", "cls"),
    [("wmma", "other"), ("wgmma", "barrier"), ("multimem", "atomic"), ("st", "st.global"), ("cp", "other")],
)
def test_a_root_alone(opcode: str, cls: str) -> None:
    assert classify("ptx", opcode) == cls


def test_an_operation_may_carry_a_qualifier() -> None:
    assert classify("ptx", "tcgen05.mma::x") == "mma"
    assert classify("ptx", "multimem.st::x.global.f32") == "st.global"


def test_a_constant_move_is_of_sass_alone() -> None:
    assert classify("ptx", "HFMA2", ("R5", "RZ", "RZ", "0", "0")) == "other"
    assert classify("sass", "FFMA", ("R5", "RZ", "RZ", "0", "0")) == "fma"
    assert classify("sass", "IMAD") == "integer"


@pytest.mark.parametrize(
    ("opcode", "expected"),
    [
        *(("STG.E", 4), ("STG", 4), ("LDS.U8", 4), ("LDS.64", 8), ("STG.E.128", 16), ("LDG.E.64.CONSTANT", 8)),
        *(("LDSM.16.M88.2", 8), ("LDSM.16.M88.4", 16), ("LDSM.16.M88", 4)),
    ],
)
def test_bytes_of_a_lane(opcode: str, expected: int) -> None:
    assert bytes_per_lane(opcode) == expected


@pytest.mark.parametrize(
    ("opcode", "expected"),
    [
        *(("LDSM.16.M88", 1), ("LDSM.16.M88.2", 2), ("LDSM.16.M88.4", 4), ("LDSM.16.MT88.4", 4), ("LDSM.16.MT88", 1)),
        *(("STSM.16.M88.4", 4), ("STSM.16.MT88.2", 2), ("STSM.8.MT168.4", 4), ("STSM.8.MT168", 1)),
        *(("LDSM.8.MT1616", 2), ("LDSM.8.MT1616.2", 4), ("LDSM.U6x16P32TO8.M816.4", 4)),
        *(("LDS.128", 1), ("STS.64", 1), ("MOVM.16.MT88", 1)),
    ],
)
def test_least_wavefronts(opcode: str, expected: int) -> None:
    assert least_wavefronts(opcode) == expected
