"""A pytest plugin: the fixture `lab_kernel` compiles a kernel and gives its figures to assertions.

::

    def test_scale(lab_kernel):
        k = lab_kernel("csrc/scale.cu", "scale<float>", arch="sm_90")
        assert k.spills == 0
        assert k.hot_loop.ratio("fma", "ld.shared") >= 16
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from lab.diff.figures import KernelFigures, LoopFigures
    from lab.recorded.run_records import VariantRecord


@dataclass(frozen=True, slots=True)
class CheckedLoop:
    """The hot loop of a kernel, or its code where it has no loop.

    Attributes:
        figures: Its figures.
    """

    figures: LoopFigures

    @property
    def instructions(self) -> int:
        """Instructions of one iteration."""
        return self.figures.instructions

    def count(self, cls: str) -> int:
        """Return the instructions of a class in one iteration.

        Raises:
            UserError: The class does not exist.
        """
        from lab.base.errors import UserError, did_you_mean
        from lab.isa.model import InstructionClass

        names = [known.value for known in InstructionClass]
        if cls not in names:
            raise UserError(
                "no such class of instructions",
                code="unknown-name",
                found=cls,
                accepted=names,
                suggestion=did_you_mean(cls, names),
            )
        return self.figures.by_class.get(cls, 0)

    def ratio(self, first: str, second: str) -> float:
        """Return how many instructions of one class there are for each of another; infinite where there is none."""
        count, other = self.count(first), self.count(second)
        return count / other if other else float("inf")


@dataclass(frozen=True, slots=True)
class CheckedKernel:
    """A compiled kernel for assertions.

    Attributes:
        name: Its C++ name.
        arch: Its architecture.
        figures: Its figures.
        record: The record of the experiment that executed it; None where a source was compiled alone.
    """

    name: str
    arch: str
    figures: KernelFigures
    record: VariantRecord | None = None

    @property
    def registers(self) -> int:
        """Registers per thread."""
        return self.figures.registers

    @property
    def spills(self) -> int | None:
        """Bytes of spill stores and loads per thread; None where nothing tells."""
        return self.figures.spill_bytes

    @property
    def stack(self) -> int:
        """Bytes of stack per thread."""
        return self.figures.stack_bytes

    @property
    def shared(self) -> int:
        """Bytes of static shared memory per block."""
        return self.figures.shared_bytes

    @property
    def occupancy(self) -> float | None:
        """Resident warps over the SM's most, 0 to 1."""
        return self.figures.occupancy

    @property
    def hot_loop(self) -> CheckedLoop:
        """The hot loop.

        Raises:
            ValueError: The kernel has no instruction.
        """
        if self.figures.loop is None:
            raise ValueError(f"{self.name} has no instruction")
        return CheckedLoop(self.figures.loop)

    @property
    def verdict(self) -> str:
        """The verdict of the experiment: `verified`.

        Raises:
            ValueError: No experiment executed the kernel.
        """
        return self._executed().status.value

    @property
    def conflicts(self) -> float:
        """Bank conflicts per request to shared memory, counted on the CPU; 0 without requests.

        Raises:
            ValueError: No experiment executed the kernel.
        """
        from lab.store.figures import emulated_conflicts

        return emulated_conflicts(self._executed()) or 0.0

    def _executed(self) -> VariantRecord:
        if self.record is None:
            raise ValueError("lab_kernel needs an experiment file for this: lab new writes one")
        return self.record


@pytest.fixture(scope="session")
def lab_kernel() -> Callable[..., CheckedKernel]:
    """Return a function that compiles a kernel: `lab_kernel("scale.cu", "scale<float>", arch="sm_90")`.

    It also takes an experiment file, whose kernel is then executed on the CPU, and any other side of `lab diff`.
    """
    return check_kernel


def check_kernel(
    source: str | Path,
    kernel: str = "",
    *,
    arch: str = "sm_90",
    toolchain: str = "auto",
    options: Sequence[str] = (),
    define: Sequence[str] = (),
    include: Sequence[str | Path] = (),
) -> CheckedKernel:
    """Compile one kernel and return its figures.

    Args:
        source: A CUDA source, PTX, a container of machine code, or an experiment file.
        kernel: The kernel, or the instance of a template; of an experiment, the label of a variant. Empty means the
            only one.
        arch: The architecture.
        toolchain: The compiler.
        options: Further compiler options.
        define: Macros.
        include: Folders of headers.

    Raises:
        UserError: The file or kernel does not exist, or several kernels fit.
        CompileError: It does not compile.
    """
    from lab.base.errors import CompileError, Location, UserError
    from lab.diff.collect import CollectOptions, collect
    from lab.diff.comparison import compare_sides

    path = Path(source)
    if path.suffix in (".yaml", ".yml"):
        return _executed(path, kernel, arch)
    instances = (kernel,) if kernel and path.suffix != ".ptx" else ()
    settings = CollectOptions(
        (arch,), (toolchain,), instances, None, tuple(map(Path, include)), tuple(define), tuple(options)
    )
    side = collect(path, settings)
    if not side.images:
        raise CompileError("; ".join(reason for _, reason in side.failures), "", "")
    changes = [
        change
        for change in compare_sides(side, side, figures=True).changes
        if change.arch == arch.rstrip("af") and (not kernel or kernel in (change.name, change.name.partition("<")[0]))
    ]
    if len(changes) != 1 or changes[0].head is None:
        raise UserError(
            "no such kernel" if not changes else "several kernels",
            code="unknown-name",
            at=Location(path),
            key="kernel",
            found=kernel or ", ".join(change.name for change in changes),
            accepted=[change.name for change in compare_sides(side, side).changes],
        )
    return CheckedKernel(changes[0].name, changes[0].arch, changes[0].head)


def _executed(experiment: Path, label: str, arch: str) -> CheckedKernel:
    """Run an experiment on the CPU and return one of its variants."""
    from lab.base.errors import Location, UserError
    from lab.runs.pipeline import RunOptions, run

    with tempfile.TemporaryDirectory(prefix="lab-pytest-") as folder:
        records = run(experiment, RunOptions(output=Path(folder), measure=False, archs=(arch,))).records
        chosen = [record for record in records if not label or label in (record.label, record.variant)]
        if len(chosen) != 1:
            raise UserError(
                "no such variant" if not chosen else "several variants",
                code="unknown-name",
                at=Location(experiment),
                key="kernel",
                found=label,
                accepted=[record.label for record in records],
            )
        compiled = check_kernel(Path(folder, "variants", chosen[0].variant, "kernel.cubin"), arch=arch)
    return CheckedKernel(compiled.name, compiled.arch, compiled.figures, chosen[0])
