"""Registers of producer and consumer warps: figures beside a variant's throughput.

They are of the kernel that changes them by `setmaxnreg`, else of the one with most matrix instructions. ptxas may
ignore such changes, of which it warns; then there are none in the machine code, and every thread has what it allotted.
"""

from __future__ import annotations

from dataclasses import dataclass

from lab.isa.mix import KernelMix
from lab.isa.model import InstructionClass
from lab.isa.roles import Role, WarpRole, changes_registers
from lab.recorded.run_records import VariantRecord
from lab.toolchain.base import Resources


@dataclass(frozen=True, slots=True)
class RoleRegisters:
    """Registers per thread by the role of the warp; in ascending order, each number once.

    Attributes:
        producers: Of warps that fetch alone.
        consumers: Of warps that multiply: those of every thread where a kernel changes none.
        others: Of warps that change them and do neither.
    """

    producers: tuple[int, ...]
    consumers: tuple[int, ...]
    others: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """All in words: `producer 40, consumer 232`."""
        by_role = ((Role.PRODUCER, self.producers), (Role.CONSUMER, self.consumers), (Role.OTHER, self.others))
        return ", ".join(f"{role} {' and '.join(map(str, counts))}" for role, counts in by_role if counts)


def role_registers(record: VariantRecord) -> RoleRegisters | None:
    """Return a variant's registers by role; None if no warp multiplies or changes them, or nothing is known."""
    kernel = _kernel(record)
    if kernel is None:
        return None
    if not kernel.changes:
        return RoleRegisters((), (kernel.used.registers,)) if _multiplied(kernel.ptx) else None
    if not kernel.ptx.roles:
        return None

    def of(role: Role) -> tuple[int, ...]:
        counts = {_registers(warp_role, kernel.used) for warp_role in kernel.ptx.roles if warp_role.role is role}
        return tuple(sorted(counts))

    return RoleRegisters(of(Role.PRODUCER), of(Role.CONSUMER), of(Role.OTHER))


def registers_by_role(record: VariantRecord) -> str | None:
    """Return `RoleRegisters.text` if warps change their registers; None if all have the same."""
    kernel = _kernel(record)
    registers = role_registers(record) if kernel is not None and kernel.changes else None
    return None if registers is None else registers.text


def _registers(role: WarpRole, used: Resources) -> int:
    return used.registers if role.registers is None else role.registers


@dataclass(frozen=True, slots=True)
class _Kernel:
    ptx: KernelMix
    sass: KernelMix | None
    used: Resources

    @property
    def changes(self) -> bool:
        """Return whether warps change their register count."""
        return _changes(self.ptx) and (self.sass is None or _changes(self.sass))


def _kernel(record: VariantRecord) -> _Kernel | None:
    """Return the kernel that changes registers, else the one with most matrix instructions; None without PTX."""
    used = record.build.resources if record.build is not None else None
    launches = [(step.ptx, step.sass, step.resources) for step in record.steps] or [(record.ptx, record.sass, used)]
    kernels = [_Kernel(ptx, sass, own) for ptx, sass, own in launches if ptx is not None and own is not None]
    return max(kernels, key=lambda kernel: (kernel.changes, _multiplied(kernel.ptx)), default=None)


def _multiplied(mix: KernelMix) -> int:
    return mix.counts.by_class.get(InstructionClass.MMA, 0)


def _changes(mix: KernelMix) -> bool:
    return any(map(changes_registers, mix.counts.by_opcode))
