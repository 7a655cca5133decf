"""Roles of warps that change their registers, in the shapes that kernels give them."""

from __future__ import annotations

from itertools import permutations

import pytest

from lab.isa.cfg import control_flow
from lab.isa.mix import kernel_mix, module_mix
from lab.isa.ptx.module import read_ptx
from lab.isa.roles import Role, WarpRole, changes_registers, warp_roles
from lab.isa.sass.module import read_sass

HEAD = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k() {
.reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>;
mov.u32 %r0, %tid.x; shr.u32 %r1, %r0, 7; setp.eq.u32 %p0, %r1, 0; setp.ne.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r1, 1;
"""
GIVE, TAKE = "setmaxnreg.dec.sync.aligned.u32 40;", "setmaxnreg.inc.sync.aligned.u32 232;"
COPY = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd1], 1024, [%r3];"
STORE = "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r2], 1024;"
MULTIPLY = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd2, %rd3, 1, 1, 1, 0, 0;"
JOIN = "bar.sync 0;"
LOOP = "setp.lt.s32 %p7, %r5, %r6;"
ELECT = "elect.sync %r7|%p6, -1;"
"""A predicate that one thread of a warp has."""


def roles(body: str) -> dict[int | None, str]:
    """Registers to the role of the warps that have them."""
    (kernel,) = read_ptx(f"{HEAD}{body}\n}}\n").kernels
    group_roles = warp_roles(kernel, control_flow(kernel))
    assert len({role.registers for role in group_roles}) == len(group_roles)
    return {role.registers: role.role.value for role in group_roles}


BOTH = {40: "producer", 232: "consumer"}
SHAPES = {
    "if and else": (f"@%p1 bra C; {GIVE} {COPY} bra J; C: {TAKE} {MULTIPLY} J: {JOIN} ret;", BOTH),
    "the consumer first": (f"@%p0 bra P; {TAKE} {MULTIPLY} ret; P: {GIVE} {COPY} ret;", BOTH),
    "the producer returns": (f"@%p1 bra C; {GIVE} {COPY} ret; C: {TAKE} {MULTIPLY} ret;", BOTH),
    "an end without a return": (f"@%p1 bra C; {GIVE} {COPY} bra J; C: {TAKE} {MULTIPLY} J:", BOTH),
    "one thread copies": (
        f"@%p1 bra C; {GIVE} {ELECT} @!%p6 bra J; P: {COPY} {LOOP} @%p7 bra P; bra J; C: {TAKE} {MULTIPLY} J: ret;",
        BOTH,
    ),
    "nested": (
        (
            f"@%p1 bra C; setp.gt.u32 %p3, %r0, 31; @%p3 bra J; {GIVE} {COPY} bra J;"
            f" C: setp.eq.s32 %p4, %r4, 0; @%p4 bra D; {TAKE} {MULTIPLY} D: {JOIN} J: ret;"
        ),
        BOTH,
    ),
    "inside a loop over tiles": (
        f"T: @%p1 bra C; {GIVE} {COPY} bra J; C: {TAKE} {MULTIPLY} J: {JOIN} {LOOP} @%p7 bra T; ret;",
        BOTH,
    ),
    "loops along k inside one over tiles": (
        (
            f"T: @%p1 bra C; {GIVE} P: {COPY} {LOOP} @%p7 bra P; bra J;"
            f" C: {TAKE} M: {MULTIPLY} {LOOP} @%p7 bra M; J: {JOIN} {LOOP} @%p7 bra T; ret;"
        ),
        BOTH,
    ),
    "threads copy by themselves": (
        (
            f"@%p1 bra C; {GIVE} cp.async.cg.shared.global [%r2], [%rd1], 16; cp.async.commit_group; ret;"
            f" C: {TAKE} mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {{%rd4, %rd5}}, {{%rd6}}, {{%rd7}},"
            " {%rd4, %rd5};"
        ),
        BOTH,
    ),
    "consumers also fetch and store": (
        f"@%p1 bra C; {GIVE} {COPY} ret; C: {TAKE} {COPY} {MULTIPLY} {STORE} ret;",
        BOTH,
    ),
    "changed first, parted behind a barrier": (
        f"@%p1 bra C; {GIVE} bra J; C: {TAKE} J: {JOIN} @%p1 bra M; {COPY} ret; M: {MULTIPLY} ret;",
        BOTH,
    ),
    "the same by guards": (f"@%p0 {GIVE} @!%p0 {TAKE} {JOIN} @%p0 {COPY} @%p0 ret; {MULTIPLY} ret;", BOTH),
    "the opposite comparison": (f"@!%p0 bra A; {GIVE} {COPY} A: @!%p1 bra B; {TAKE} {MULTIPLY} B: ret;", BOTH),
    "a comparison made again": (
        (
            f"@!%p0 bra A; {GIVE} A: @%p0 bra B; {TAKE} B: {JOIN} setp.ne.u32 %p3, %r1, 0; @%p3 bra M; {COPY} ret;"
            f" M: {MULTIPLY} ret;"
        ),
        BOTH,
    ),
    "a count in hexadecimal": (
        f"@%p1 bra C; setmaxnreg.dec.sync.aligned.u32 0x28; {COPY} ret; C: {TAKE} {MULTIPLY} ret;",
        BOTH,
    ),
    "three roles": (
        (
            f"@%p0 bra P; @%p2 bra S; {TAKE} {MULTIPLY} ret; P: {GIVE} {COPY} ret;"
            f" S: setmaxnreg.dec.sync.aligned.u32 96; {STORE} ret;"
        ),
        {**BOTH, 96: "other"},
    ),
    "three roles by a table": (
        (
            f"L: .branchtargets P, C, S; brx.idx %r1, L; P: {GIVE} {COPY} ret; C: {TAKE} {MULTIPLY} ret;"
            f" S: setmaxnreg.dec.sync.aligned.u32 24; st.shared.f32 [%r2], %f0; ret;"
        ),
        {**BOTH, 24: "other"},
    ),
    "given back where a worker waits for work": (  # as Triton's warps do that are called to their part
        (
            f"W: setmaxnreg.dec.sync.aligned.u32 24; {JOIN} L: .branchtargets P, C, E; brx.idx %r4, L;"
            f" P: setmaxnreg.inc.sync.aligned.u32 40; {COPY} bra W; C: {TAKE} {MULTIPLY} bra W; E: ret;"
        ),
        {**BOTH, 24: "other"},
    ),
    "consumers keep theirs": (
        f"@%p1 bra C; {GIVE} {COPY} ret; C: {MULTIPLY} ret;",
        {None: "consumer", 40: "producer"},
    ),
    "warps that neither change nor work": (
        f"@%p2 bra J; @%p1 bra C; {GIVE} {COPY} ret; C: {TAKE} {MULTIPLY} J: ret;",
        BOTH,
    ),
    "no warp both parts and stays": (
        # every warp takes one of both changes, though no single branch says so
        f"@!%p0 bra A; {GIVE} A: @%p0 bra B; {TAKE} B: {JOIN} @%p0 bra P; {MULTIPLY} ret; P: {COPY} ret;",
        BOTH,
    ),
    "all multiply behind a join": (
        f"@%p1 bra C; {GIVE} {COPY} bra J; C: {TAKE} J: {JOIN} {MULTIPLY} ret;",
        {40: "consumer", 232: "consumer"},
    ),
    "a loader by plain loads": (
        f"@%p1 bra C; {GIVE} ld.global.f32 %f4, [%rd1]; st.shared.f32 [%r2], %f4; ret; C: {TAKE} {MULTIPLY} ret;",
        {40: "other", 232: "consumer"},
    ),
    "copies that only store, warm a cache or arrive": (
        (
            f"@%p1 bra C; {GIVE} {STORE} cp.async.bulk.prefetch.L2.global [%rd1], 512;"
            f" cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r2]; cp.async.bulk.commit_group; ret;"
            f" C: {TAKE} {MULTIPLY} ret;"
        ),
        {40: "other", 232: "consumer"},
    ),
    "an unknown function": (
        f"@%p1 bra C; {GIVE} {COPY} call.uni helper, (); ret; C: {TAKE} call.uni helper, (); {MULTIPLY} ret;",
        {40: "other", 232: "consumer"},
    ),
    "a call that prints": (
        f"@%p1 bra C; {GIVE} {COPY} call.uni (%r4), vprintf, (%rd1, %rd2); ret; C: {TAKE} {MULTIPLY} ret;",
        BOTH,
    ),
    "no product at all": (
        f"@%p1 bra C; {GIVE} {COPY} ret; C: {TAKE} fma.rn.f32 %f0, %f1, %f2, %f0; ret;",
        {40: "producer", 232: "other"},
    ),
    "no change": (f"@%p1 bra C; {COPY} ret; C: {MULTIPLY} ret;", {}),
    "a count that is no number": (f"setmaxnreg.dec.sync.aligned.u32 %r1; {COPY} ret;", {}),
}


@pytest.mark.parametrize(("body", "found"), SHAPES.values(), ids=SHAPES)
def test_a_role_is_what_warps_reach(body, found):
    assert roles(body) == found


def test_a_value_that_loops_change_is_no_fact():
    """A predicate of each pass may send the same warps to copies now and to products later."""
    parted = f"{GIVE} T: setp.eq.s32 %p3, %r5, 0; @%p3 bra P; {MULTIPLY} P: @%p3 bra Q; bra T; Q: {COPY} bra T;"
    assert roles(parted) == {40: "consumer"}
    assert roles(parted.replace(MULTIPLY, "")) == {40: "producer"}


def test_a_register_that_is_written_twice_is_no_fact():
    again = "mov.u32 %r1, 1; setp.eq.u32 %p0, %r1, 0;"
    assert roles(f"{GIVE} @%p0 bra A; {COPY} A: {again} @!%p0 bra B; {MULTIPLY} B: ret;") == {40: "consumer"}


def test_roles_do_not_depend_on_the_order_of_the_text():
    parts = {"P": f"{GIVE} {COPY}", "C": f"{TAKE} {MULTIPLY}", "S": f"setmaxnreg.dec.sync.aligned.u32 24; {STORE}"}
    for order in permutations(parts):
        text = " ".join(f"{label}: {parts[label]} bra J;" for label in order)
        assert roles(f"@%p0 bra P; @%p2 bra S; bra C; {text} J: ret;") == {**BOTH, 24: "other"}


def test_many_branches_that_agree_end_in_time():
    """Each condition is tested twice: 2^24 paths, of which a walk remembers some."""
    names = [f"%q{i}" for i in range(24)]
    declared = f".reg .pred {', '.join(names)};" + "".join(f"setp.gt.u32 {q}, %r0, {i};" for i, q in enumerate(names))
    steps = "".join(f"@{q} bra A{i}; st.shared.f32 [%r2], %f0; A{i}: " for i, q in enumerate(names))
    again = "".join(f"@{q} bra B{i}; st.shared.f32 [%r2], %f0; B{i}: " for i, q in enumerate(names))
    body = f"{declared} @%p1 bra C; {GIVE} {COPY} {steps} {again} ret; C: {TAKE} {MULTIPLY} ret;"
    assert roles(body) == BOTH


def test_roles_stand_in_the_mix_with_their_lines():
    text = f"{HEAD}@%p1 bra C;\n{GIVE}\n{COPY} ret;\nC: {TAKE}\n{MULTIPLY} ret;\n}}\n"
    (kernel,) = module_mix(read_ptx(text))
    assert kernel.roles == (WarpRole(Role.PRODUCER, 40, 8), WarpRole(Role.CONSUMER, 232, 10))
    kept = text.replace(TAKE, "")
    (kernel,) = module_mix(read_ptx(kept))
    assert kernel.roles[0] == WarpRole(Role.CONSUMER, None, 11)


@pytest.mark.parametrize(
    ("opcode", "changes"),
    [("setmaxnreg.inc.sync.aligned.u32", True), ("USETMAXREG.DEALLOC.CTAPOOL", True), ("setp.eq.s32", False)],
)
def test_opcodes_that_change_registers(opcode, changes):
    assert changes_registers(opcode) is changes


def sass(*lines: str):
    code = "\n".join(f"/*{16 * number:04x}*/ {line} ;" for number, line in enumerate(lines))
    (kernel,) = read_sass(f"\t.target\tsm_90\n\t.section\t.text.k\n{code}").functions
    return kernel_mix("sass", kernel).roles


def test_machine_code_has_the_same_roles():
    """As ptxas 13.5 writes them: what takes registers tries again until there are some."""
    group_roles = sass(
        "@P0 BRA 0x60",
        "USETMAXREG.TRY_ALLOC.CTAPOOL UP0, 0xe8",
        "@!UP0 BRA 0x10",
        "HGMMA.64x8x16.F32 R4, gdesc[UR4], R4",
        "UTMASTG.2D [UR4], [UR6]",
        "EXIT",
        "USETMAXREG.DEALLOC.CTAPOOL 0x28",
        "UBLKCP.S.G [UR8], [UR12], UR4",
        "EXIT",
    )
    assert {(role.registers, role.role.value) for role in group_roles} == {(40, "producer"), (232, "consumer")}
    for copy, role in (("UBLKCP.G.S [UR8], [UR12], UR4", Role.OTHER), ("LDGSTS.E.128 [R2], [R4.64]", Role.PRODUCER)):
        assert [one.role for one in sass("USETMAXREG.DEALLOC.CTAPOOL 0x28", copy, "EXIT")] == [role]
