"""What is launched to compute one problem once: values that the emulator, the GPU and the reports share.

A variant is a sequence of launches on one stream, mostly of one. Launches of a sequence may share scratch buffers, the
workspace. `lab.templates.sequence` has the rules by which templates and libraries make these values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lab.hardware.tensormaps import TensorMap
from lab.templates.front_matter import ELEMENT_BYTES


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch for one problem.

    Attributes:
        entry: Symbol of the entry point.
        grid: Blocks in x, y, z.
        block: Threads in x, y, z.
        dynamic_shared_bytes: Dynamic shared memory of a block.
        arguments: Names of the operator's scalars and arrays, of workspace buffers and of tensor maps, with their
            types: ``("A", "float32*")``.
        bytes_moved: Least bytes that this launch moves through DRAM, as the template declares it; None where it
            does not.
        main: Of a sequence, the launch that does all of the problem's operations.
    """

    entry: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared_bytes: int
    arguments: tuple[tuple[str, str], ...]
    bytes_moved: int | None = None
    main: bool = False


@dataclass(frozen=True, slots=True)
class Workspace:
    """A scratch buffer on the device.

    Attributes:
        name: What arguments call it.
        dtype: Element type by NumPy's name.
        elements: How many.
        zero: Set to zero before every sequence.
    """

    name: str
    dtype: str
    elements: int
    zero: bool = False

    @property
    def bytes(self) -> int:
        """Size in bytes."""
        return self.elements * ELEMENT_BYTES[self.dtype]


@dataclass(frozen=True, slots=True)
class Launches:
    """Everything that is launched, in order, to compute a problem once.

    Attributes:
        steps: At least one.
        workspace: Scratch buffers that the steps share.
        tensor_maps: The values of their arguments of type `tensor_map`.
    """

    steps: tuple[Launch, ...]
    workspace: tuple[Workspace, ...] = ()
    tensor_maps: tuple[TensorMap, ...] = ()

    @property
    def entries(self) -> tuple[str, ...]:
        """Symbols that are launched, each once, in order."""
        return tuple(dict.fromkeys(step.entry for step in self.steps))

    def named(self, symbols: Mapping[str, str]) -> Launches:
        """Return the same launches with entry points by their symbols in the machine code, where these differ."""
        if not symbols:
            return self
        return replace(self, steps=tuple(replace(one, entry=symbols.get(one.entry, one.entry)) for one in self.steps))

    @property
    def main(self) -> Launch | None:
        """The only launch, or the one that does all of the problem's operations; None where several share them."""
        found = self.steps if len(self.steps) == 1 else [step for step in self.steps if step.main]
        return found[0] if len(found) == 1 else None

    @property
    def bytes_moved(self) -> int | None:
        """Least bytes that all launches move; None unless every launch declares its own."""
        declared = [step.bytes_moved for step in self.steps]
        return None if None in declared else sum(b for b in declared if b is not None)
