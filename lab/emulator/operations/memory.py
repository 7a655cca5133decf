"""Loads, stores, address conversions, and hints that change no value."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from lab.emulator import operands
from lab.emulator.memory.memory import FIRST_BUFFER, LOCAL_WINDOW, PARAM_WINDOW, SEGMENT_SHIFT, SHARED_WINDOW
from lab.emulator.operations.base import DTYPES, Alu, Array, Opcode, UnknownForm, operation, system
from lab.emulator.waiting.clusters import RANK_SHIFT

if TYPE_CHECKING:
    from lab.emulator.machine import Machine

Run = Callable[[Array | None], None]

# Cache hints and memory-model words: every access here is sequentially consistent and uncached.
_HINTS = (
    "ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "weak", "unified", "relaxed", "acquire", "release", "cta", "gpu",
    "sys", "cluster", "L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last",
    "L1::no_allocate", "L2::64B", "L2::128B", "L2::256B",
)  # fmt: skip
_SPACES = ("global", "shared", "local", "const", "param", "shared::cta", "param::entry", "param::func")


def take_space(op: Opcode, default: str = "generic") -> str:
    """Take the state space; sub-space words are folded into their space."""
    return op.one_of(_SPACES, default).split("::")[0]


def parameter_space(machine: Machine, position: int, text: str, space: str) -> str:
    """Tell the kernel's parameters from those of calls."""
    if space != "param":
        return space
    found = operands.address(text)
    place = None if found is None else machine.program.places.get((machine.program.code[position][0], found.base or ""))
    return place.space if place is not None else "kernel-param"


def _form(op: Opcode, machine: Machine, position: int, address: str) -> tuple[str, int, str, bool]:
    """Take a load's or store's words; return space, elements, type and whether it is strong."""
    volatile = op.flag("volatile")
    strong = volatile or any(word in op.parts for word in ("relaxed", "acquire", "release"))
    space = parameter_space(machine, position, address, take_space(op))
    for hint in _HINTS:
        op.flag(hint)
    vector = int(op.one_of(("v2", "v4", "v8"), "v1")[1:])
    t = op.type()
    op.finish()
    if vector * DTYPES[t].itemsize > 16:  # noqa: PLR2004  the widest access here
        raise UnknownForm("an access of 32 bytes")
    return space, vector, t, strong


@system("ld", "ldu")
def load(machine: Machine, position: int, op: Opcode) -> Run:
    """Build a load; narrow types are extended to the register's width."""
    destination, source, *more = machine.program.code[position][1].operands
    if more:
        raise UnknownForm("a cache policy")
    peers = op.flag("shared::cluster")
    if peers:
        op.parts.append("shared::cta")
    space, vector, t, strong = _form(op, machine, position, source)
    address = machine.memory.address(position, source, space)
    targets = [machine.binder.target(position, text, t) for text in operands.elements(destination)]
    width, dtype = DTYPES[t].itemsize, DTYPES[t]
    if len(targets) != vector:
        raise UnknownForm(f"{len(targets)} destinations")
    memory = machine.memory

    def run(chosen: Array | None) -> None:
        if peers:
            values = memory.load_peer(position, address(chosen), chosen, width=width, vector=vector)
        else:
            values = memory.load(position, space, address(chosen), chosen, width=width, vector=vector, strong=strong)
        for target, value in zip(targets, values, strict=True):
            target(chosen, value.view(dtype))

    return run


@system("st")
def store(machine: Machine, position: int, op: Opcode) -> Run:
    """Build a store; a wider register gives its low bits."""
    destination, source, *more = machine.program.code[position][1].operands
    if more:
        raise UnknownForm("a cache policy")
    space, vector, t, strong = _form(op, machine, position, destination)
    address = machine.memory.address(position, destination, space)
    bits = f"b{8 * DTYPES[t].itemsize}"
    reads = [
        machine.binder.source(position, text, t if t[0] == "f" and t in ("f32", "f64") else bits)
        for text in operands.elements(source)
    ]
    if len(reads) != vector:
        raise UnknownForm(f"{len(reads)} sources")
    width = DTYPES[t].itemsize
    memory = machine.memory

    def run(chosen: Array | None) -> None:
        values = [read(chosen).view(f"u{width}") for read in reads]
        memory.store(position, space, address(chosen), values, chosen, strong=strong)

    return run


@system("mapa")
def mapa(machine: Machine, position: int, op: Opcode) -> Run:
    """Build the address of another block's shared memory: mapa.shared::cluster.u32 d, a, rank."""
    if not op.flag("shared::cluster"):
        raise UnknownForm("generic addresses")
    t = op.one_of(("u32",))
    op.finish()
    result, source, rank = machine.program.code[position][1].operands
    read, which = machine.binder.source(position, source, t), machine.binder.source(position, rank, t)
    write = machine.binder.target(position, result, t)
    within = np.uint32((1 << RANK_SHIFT) - 1)

    def run(chosen: Array | None) -> None:
        write(chosen, (read(chosen) & within) | ((which(chosen) + np.uint32(1)) << np.uint32(RANK_SHIFT)))

    return run


@operation("cvta")
def cvta(op: Opcode, _n: int) -> Alu:
    """Build the conversion between a state-space address and a generic one."""
    to_space = op.flag("to")
    space = take_space(op)
    t = op.one_of(("u32", "u64"))
    op.finish()
    if t != "u64" or space == "generic":
        raise UnknownForm(f".{t}")
    window = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW, "param": PARAM_WINDOW}.get(space, 0)
    step = np.uint64((-window if to_space else window) & (2**64 - 1))

    def compute(out: Array, a: Array) -> None:
        np.add(a, step, out=out)

    return Alu(compute, ("u64",), ("u64",))


@system("isspacep")
def isspacep(machine: Machine, position: int, op: Opcode) -> Run:
    """Build the test whether a generic address lies in a space."""
    space = take_space(op)
    op.finish()
    result, source = machine.program.code[position][1].operands
    read = machine.binder.source(position, source, "u64")
    write = machine.binder.target(position, result, "pred")
    segment = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW, "param": PARAM_WINDOW}.get(space, 0) >> SEGMENT_SHIFT
    constants = [key for key, region in machine.launch.space.regions.items() if region.space == "const"]

    def run(chosen: Array | None) -> None:
        found = (read(chosen) >> np.uint64(SEGMENT_SHIFT)).astype(np.int64)
        if space == "const":
            hit = np.isin(found, constants)
        elif space == "global":
            hit = (found >= FIRST_BUFFER) & ~np.isin(found, constants)
        else:
            hit = found == segment
        write(chosen, np.broadcast_to(hit, (machine.threads if chosen is None else len(chosen),)))

    return run


@system("prefetch", "prefetchu", "discard", "applypriority", "nanosleep", "membar", "pmevent", "griddepcontrol")
def nothing(_machine: Machine, _position: int, _op: Opcode) -> Run:
    """Build what changes no value: hints, and membar in a machine whose memory is always consistent."""
    return lambda _chosen: None
