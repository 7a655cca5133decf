"""Registers by role, of records with roles and without."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from narrowing import known
from written_runs import variant

from lab.isa.cfg import control_flow
from lab.isa.mix import KernelMix, module_mix
from lab.isa.ptx.module import read_ptx
from lab.isa.roles import Role, WarpRole, warp_roles
from lab.recorded.run_records import LaunchRecord, StepRecord
from lab.runs.sides import read_side
from lab.store import published
from lab.store.database import Store
from lab.store.role_figures import RoleRegisters, registers_by_role, role_registers

REPORTS = Path(__file__).parents[2] / "reports/h200"
PTX = """.version 8.0
.target sm_90a
.entry k() { .reg .pred %p; .reg .f32 %f<4>; .reg .b64 %rd<4>; @%p bra C;
setmaxnreg.dec.sync.aligned.u32 40;
cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r1, %r1}], [%r1]; ret; C:
setmaxnreg.inc.sync.aligned.u32 232;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd2, %rd3, 1, 1, 1, 0, 0; ret; }
"""
RECORD, _ = variant("tiled", {"unroll": 1}, "unroll=1", 64, 4, 9, 0.8, measured=True)
(MIX,) = module_mix(read_ptx(PTX))
ALLOTTED = 168
BUILD = known(RECORD.build)
RESOURCES = replace(BUILD.resources, registers=ALLOTTED)
KNOWN = replace(RECORD, ptx=MIX, sass=None, build=replace(BUILD, resources=RESOURCES))


def without(mix: KernelMix, *opcodes: str) -> KernelMix:
    kept = {opcode: n for opcode, n in mix.counts.by_opcode.items() if not opcode.startswith(opcodes)}
    return replace(mix, counts=replace(mix.counts, by_opcode=kept), roles=())


def test_registers_are_those_that_the_text_gives():
    assert role_registers(KNOWN) == RoleRegisters((40,), (232,))
    assert registers_by_role(KNOWN) == "producer 40, consumer 232"


def test_several_warps_of_a_role_have_each_number_once():
    roles = (*MIX.roles, WarpRole(Role.CONSUMER, 160, 9), WarpRole(Role.OTHER, 24, 9), WarpRole(Role.OTHER, 24, 11))
    found = replace(KNOWN, ptx=replace(MIX, roles=roles))
    assert role_registers(found) == RoleRegisters((40,), (160, 232), (24,))
    assert registers_by_role(found) == "producer 40, consumer 160 and 232, other 24"


def test_who_never_changes_has_the_registers_of_the_launch():
    kept = replace(MIX, roles=(WarpRole(Role.CONSUMER, None, 7), WarpRole(Role.PRODUCER, 40, 4)))
    assert registers_by_role(replace(KNOWN, ptx=kept)) == f"producer 40, consumer {ALLOTTED}"


def test_without_changes_who_multiplies_has_what_ptxas_allots():
    plain = replace(KNOWN, ptx=without(MIX, "setmaxnreg"))
    assert role_registers(plain) == RoleRegisters((), (ALLOTTED,))
    assert registers_by_role(plain) is None
    assert role_registers(RECORD) is None  # it has no matrix instruction
    assert role_registers(replace(KNOWN, ptx=None, sass=None, build=None)) is None
    assert role_registers(replace(KNOWN, ptx=replace(MIX, roles=()))) is None  # as its PTX was not read


def test_changes_that_ptxas_left_out_are_none():
    """It warns that `setmaxnreg` is ignored; the machine code says so, too."""
    assert RECORD.sass is not None
    ignored = replace(KNOWN, sass=RECORD.sass)
    assert role_registers(ignored) == RoleRegisters((), (ALLOTTED,))
    assert registers_by_role(ignored) is None
    changing = replace(RECORD.sass.counts, by_opcode={"USETMAXREG.DEALLOC.CTAPOOL": 1})
    assert registers_by_role(replace(KNOWN, sass=replace(RECORD.sass, counts=changing))) == "producer 40, consumer 232"


def test_of_several_launches_the_one_that_changes_registers_counts():
    launch = LaunchRecord((1, 1, 1), (384, 1, 1), 0)
    first = StepRecord("turn", launch, resources=replace(RESOURCES, registers=32), ptx=without(MIX, "setmaxnreg"))
    second = StepRecord("k", launch, resources=RESOURCES, ptx=MIX)
    steps = replace(KNOWN, ptx=None, steps=(first, second, first))
    assert role_registers(steps) == RoleRegisters((40,), (232,))
    assert role_registers(replace(steps, steps=(first,))) == RoleRegisters((), (32,))


def test_cutlass_has_the_roles_that_its_source_gives(tmp_path):
    """The listings of one variant were committed."""
    published.restore(REPORTS / "hgemm_cutlass", tmp_path)
    with Store(tmp_path) as store:
        listed = [
            record for record in store.records() if (store.variant_folder(record.variant).path / "kernel.ptx").exists()
        ]
    assert [registers_by_role(record) for record in listed] == ["producer 40, consumer 232"]


def test_published_rungs_without_changes_need_no_listing():
    """v0 to v4 change no registers: what ptxas allots is what multiplies."""
    records = read_side(str(REPORTS / "hgemm_mma")).records
    for record in records:
        assert record.build is not None
        assert role_registers(record) == RoleRegisters((), (record.build.resources.registers,))


def test_the_published_ladder_has_roles_from_the_rung_that_parts_warps_on():
    """v5 is the first that changes registers; whether they were read from a listing or built again does not matter."""
    records = read_side(str(REPORTS / "hgemm_ladder")).records
    for record in records:
        parts = record.template >= "hgemm/v5"
        assert (registers_by_role(record) is not None) == parts
        assert role_registers(record) != RoleRegisters((), ())
    found = {text for record in records if (text := registers_by_role(record))}
    assert found == {"producer 40, consumer 232", "producer 32, consumer 160"}


def test_the_mix_reads_roles_as_they_are_read_alone():
    (kernel,) = read_ptx(PTX).kernels
    assert MIX.roles == warp_roles(kernel, control_flow(kernel)) != ()
