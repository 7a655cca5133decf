"""Loads, stores, address conversions, and hints without effect."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lab.emulator import operands
from lab.emulator.arrays import Mask
from lab.emulator.lanes import Lanes
from lab.emulator.memory.memory import (
    FIRST_BUFFER,
    LOCAL_SEGMENT,
    LOCAL_WINDOW,
    PARAM_WINDOW,
    SEGMENT_SHIFT,
    SHARED_WINDOW,
    WIDEST_ACCESS,
)
from lab.emulator.memory.order import Order, order_of
from lab.emulator.memory.peers import peer_address
from lab.emulator.opcodes import DTYPES, Opcode, UnknownForm
from lab.emulator.operations.base import Alu, operation
from lab.emulator.operations.remote import remote_store
from lab.emulator.operations.spaces import PEERS, in_window, take_space
from lab.emulator.operations.system import Run, Site, system
from lab.emulator.program import NO_TEXTURES, STACK_BYTES

_ALLOCA_ALIGNMENT = 8
_ALLOCA_STEP = np.uint64(_ALLOCA_ALIGNMENT)
_WINDOWS = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW, "param": PARAM_WINDOW}

# Cache hints and memory-model words: every access here is sequentially consistent and uncached.
_HINTS = (
    "ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "weak", "unified", "relaxed", "acquire", "release", "cta", "gpu",
    "sys", "cluster", "L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last",
    "L1::no_allocate", "L2::64B", "L2::128B", "L2::256B", "L2::evict_normal", "L2::evict_first", "L2::evict_last",
    "mmio",
)  # fmt: skip


def take_policy(op: Opcode, site: Site, texts: list[str]) -> None:
    """Consume `.L2::cache_hint` and the policy, the last operand, which has no effect.

    Args:
        op: The opcode.
        site: The instruction.
        texts: The operands; the policy is removed.
    """
    if op.flag("L2::cache_hint"):
        site.operands.source(texts.pop(), "b64")


def _form(op: Opcode, site: Site, address: str) -> tuple[str, int, str, Order]:
    """Consume a load's or store's modifiers; return space, elements, type and memory order."""
    order = order_of(op.parts)
    op.flag("volatile")
    space = take_space(op, peers=True)
    space = space if space == PEERS else site.operands.parameter_space(address, space)
    for hint in _HINTS:
        op.flag(hint)
    vector = int(op.one_of(("v2", "v4", "v8"), "v1")[1:])
    t = op.type()
    op.finish()
    if vector * DTYPES[t].itemsize > WIDEST_ACCESS:
        raise UnknownForm(f"an access of more than {WIDEST_ACCESS} bytes")
    return space, vector, t, order


@system("ld", "ldu")
def load(site: Site, op: Opcode) -> Run:
    """Build a load; narrow types are extended to the register's width."""
    texts = list(site.texts)
    take_policy(op, site, texts)
    destination, source = texts
    space, vector, t, order = _form(op, site, source)
    space, address = in_window(site, source, space)
    targets = [site.operands.target(text, t) for text in operands.elements(destination)]
    width, dtype = DTYPES[t].itemsize, DTYPES[t]
    if len(targets) != vector:
        raise UnknownForm(f"{len(targets)} destinations")
    memory, position = site.memory, site.position

    def run(lanes: Lanes) -> None:
        values = memory.load(position, space, address(lanes), lanes, width=width, vector=vector, order=order)
        for target, value in zip(targets, values, strict=True):
            target(lanes, value.view(dtype))

    return run


@system("st")
def store(site: Site, op: Opcode) -> Run:
    """Build a store; a wider register's low bits are stored."""
    if op.flag("async"):
        return remote_store(site, op)
    texts = list(site.texts)
    take_policy(op, site, texts)
    destination, source = texts
    space, vector, t, order = _form(op, site, destination)
    space, address = in_window(site, destination, space)
    bits = f"b{8 * DTYPES[t].itemsize}"
    reads = [site.operands.source(text, t if t in ("f32", "f64") else bits) for text in operands.elements(source)]
    if len(reads) != vector:
        raise UnknownForm(f"{len(reads)} sources")
    unsigned = np.dtype(f"u{DTYPES[t].itemsize}")
    memory, position = site.memory, site.position

    def run(lanes: Lanes) -> None:
        values = [read(lanes).view(unsigned) for read in reads]
        memory.store(position, space, address(lanes), values, lanes, order=order)

    return run


@system("mapa")
def mapa(site: Site, op: Opcode) -> Run:
    """Build mapa{.shared::cluster}.u32 d, a, rank: the address of another block's shared memory.

    Without the space modifier, address and result are generic.
    """
    generic = not op.flag("shared::cluster")
    t = op.one_of(("u32", "u64"))
    op.finish()
    result, source, rank = site.texts
    if generic and t != "u64":
        raise UnknownForm("a generic address of 32 bits")
    read, which = site.operands.source(source, t), site.operands.source(rank, "u32")
    write = site.operands.target(result, t)
    window = np.uint64(SHARED_WINDOW if generic else 0)

    def run(lanes: Lanes) -> None:
        addresses = peer_address(lanes.fill(read(lanes)).astype(np.uint32), which(lanes))
        write(lanes, addresses if t == "u32" else addresses.astype(np.uint64) | window)

    return run


@operation("cvta")
def cvta(op: Opcode, _n: int) -> Alu:
    """Build the conversion between state-space and generic addresses."""
    to_space = op.flag("to")
    space = "shared" if op.flag("shared::cluster") else take_space(op)
    t = op.one_of(("u32", "u64"))
    op.finish()
    if t != "u64" or space == "generic":
        raise UnknownForm(f".{t}")
    window = _WINDOWS.get(space, 0)
    step = np.uint64((-window if to_space else window) & (2**64 - 1))

    def compute(out: NDArray[np.uint64], a: NDArray[np.uint64]) -> None:
        np.add(a, step, out=out)

    return Alu(compute, ("u64",), ("u64",))


@system("isspacep")
def isspacep(site: Site, op: Opcode) -> Run:
    """Build the test of whether a generic address is in a space."""
    space = "shared" if op.flag("shared::cluster") else take_space(op)
    op.finish()
    result, source = site.texts
    read = site.operands.source(source, "u64")
    write = site.operands.target(result, "pred")
    segment = _WINDOWS.get(space, 0) >> SEGMENT_SHIFT
    constants = [key for key, region in site.memory.space.regions.items() if region.space == "const"]

    def run(lanes: Lanes) -> None:
        segments = (read(lanes) >> np.uint64(SEGMENT_SHIFT)).astype(np.int64)
        hit: Mask
        if space == "const":
            hit = np.isin(segments, constants)
        elif space == "global":
            hit = (segments >= FIRST_BUFFER) & ~np.isin(segments, constants)
        else:
            hit = segments == segment
        write(lanes, hit)

    return run


@system("createpolicy")
def create_policy(site: Site, _op: Opcode) -> Run:
    """Build a cache policy, which has no effect here."""
    result, *sources = site.texts
    for text in sources:
        if text.startswith("["):
            site.operands.address(text, "generic")
    write = site.operands.target(result, "b64")
    return lambda lanes: write(lanes, np.ones(1, np.uint64))


@system("tex", "tld4", "txq", "suld", "sust", "sured", "suq", "istypep")
def texture(_site: Site, _op: Opcode) -> Run:
    """Reject textures and surfaces."""
    raise UnknownForm(NO_TEXTURES)


@system("alloca")
def alloca(site: Site, op: Opcode) -> Run:
    """Build alloca.u64 pointer, size, alignment: local memory allocated until the function returns."""
    t = op.one_of(("u32", "u64"))
    op.finish()
    result, size, *optional = site.texts
    alignment = operands.literal(optional[0]) if optional else _ALLOCA_ALIGNMENT
    if len(optional) > 1 or not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
        raise UnknownForm("an alignment that is not a power of two")
    read, write = site.operands.source(size, t), site.operands.target(result, t)
    pointer, rounded = site.operands.stack_pointer(), np.uint64(max(alignment, _ALLOCA_ALIGNMENT))
    limit = np.uint64(site.memory.space.regions[LOCAL_SEGMENT].size)

    def run(lanes: Lanes) -> None:
        start = (lanes.select(pointer) + rounded - np.uint64(1)) // rounded * rounded
        sizes = np.minimum(lanes.fill(read(lanes)).astype(np.uint64), limit + np.uint64(1))
        end = start + (sizes + _ALLOCA_STEP - np.uint64(1)) // _ALLOCA_STEP * _ALLOCA_STEP
        full = np.flatnonzero(end > limit)
        if len(full):
            detail = f"alloca of {int(sizes[full[0]])} bytes or more: a thread has {STACK_BYTES} bytes of stack"
            site.findings.add("out-of-bounds", site.position, detail, lanes.take(full).indices())
        pointer[lanes.rows] = np.minimum(end, limit)
        write(lanes, start.astype(f"u{DTYPES[t].itemsize}"))

    return run


@system("stacksave", "stackrestore")
def stack_pointer(site: Site, op: Opcode) -> Run:
    """Build reads and writes of a thread's stack pointer."""
    t = op.one_of(("u32", "u64"))
    op.finish()
    (text,) = site.texts
    pointer = site.operands.stack_pointer()
    if op.family == "stacksave":
        write = site.operands.target(text, t)
        return lambda lanes: write(lanes, lanes.select(pointer).astype(f"u{DTYPES[t].itemsize}"))
    read = site.operands.source(text, t)

    def restore(lanes: Lanes) -> None:
        pointer[lanes.rows] = lanes.fill(read(lanes))

    return restore


@system("multimem")
def multimem(_site: Site, _op: Opcode) -> Run:
    """Reject accesses to memory of several GPUs.

    Raises:
        UnknownForm: always.
    """
    raise UnknownForm("multimem: its address stands for memory of several GPUs, and the emulator has one")


@system("prefetch", "prefetchu", "discard", "applypriority", "nanosleep", "pmevent", "griddepcontrol")
def nothing(_site: Site, _op: Opcode) -> Run:
    """Build instructions without effect: hints."""
    return lambda _lanes: None
