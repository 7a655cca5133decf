"""mov: registers, immediates, symbols, special registers, packing and unpacking of vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lab.emulator.operations.base import DTYPES, Alu, Array, Opcode, UnknownForm, operation


@operation("mov")
def mov(op: Opcode, _n: int) -> Alu:
    """Build the plain copy."""
    t = op.type()
    op.finish()

    def compute(out: Array, a: Array) -> None:
        out[...] = a

    return Alu(compute, (t,), (t,))


def packing(t: str, count: int) -> Alu:
    """Build ``mov.b64 d, {a, b}``: the first element in the low bits."""
    element = _element(t, count)
    dtype, bits = DTYPES[t], 8 * DTYPES[element].itemsize

    def compute(out: Array, *ins: Array) -> None:
        total = ins[0].astype(dtype)
        for i, part in enumerate(ins[1:], 1):
            total = total | (part.astype(dtype) << dtype.type(bits * i))
        out[...] = total

    return Alu(compute, (t,), (element,) * count)


def unpacking(t: str, count: int) -> Alu:
    """Build ``mov.b64 {a, b}, d``."""
    element = _element(t, count)
    dtype, bits = DTYPES[t], 8 * DTYPES[element].itemsize

    def compute(*arrays: Array) -> None:
        *outs, source = arrays
        for i, piece in enumerate([source >> dtype.type(bits * i) for i in range(len(outs))]):
            outs[i][...] = piece.astype(DTYPES[element])

    return Alu(compute, (element,) * count, (t,))


def _element(t: str, count: int) -> str:
    bits = 8 * DTYPES[t].itemsize // count
    if t[0] != "b" and t not in ("u32", "u64"):
        raise UnknownForm(f"a vector in .{t}")
    if f"b{bits}" not in DTYPES:
        raise UnknownForm(f"{count} elements of .{t}")
    return f"b{bits}"


def special_registers(
    grid: Sequence[int],
    block: Sequence[int],
    tid: Sequence[Array],
    ctaid: Sequence[Array],
    shared: tuple[int, int],
    *,
    cluster: int = 1,
) -> dict[str, Array]:
    """Return the special registers that do not change.

    Args:
        grid: Blocks along x, y, z.
        block: Threads along x, y, z.
        tid: Thread indices of every thread of the batch.
        ctaid: Block indices of every thread of the batch.
        shared: All shared bytes of a block, and the dynamic ones.
        cluster: Blocks of a cluster, consecutive along x.
    """
    linear = tid[0] + block[0] * (tid[1] + block[1] * tid[2])
    lane = (linear % 32).astype(np.uint32)

    def fixed(value: int) -> Array:
        return np.array([value], np.uint32)

    table: dict[str, Array] = {}
    for i, axis in enumerate("xyz"):
        table[f"%tid.{axis}"], table[f"%ctaid.{axis}"] = tid[i].astype(np.uint32), ctaid[i].astype(np.uint32)
        table[f"%ntid.{axis}"], table[f"%nctaid.{axis}"] = fixed(block[i]), fixed(grid[i])
        table[f"%clusterid.{axis}"], table[f"%nclusterid.{axis}"] = table[f"%ctaid.{axis}"], table[f"%nctaid.{axis}"]
        table[f"%cluster_ctaid.{axis}"], table[f"%cluster_nctaid.{axis}"] = fixed(0), fixed(1)
    rank = (ctaid[0] % cluster).astype(np.uint32)
    table["%clusterid.x"], table["%nclusterid.x"] = (ctaid[0] // cluster).astype(np.uint32), fixed(grid[0] // cluster)
    table["%cluster_ctaid.x"], table["%cluster_nctaid.x"] = rank, fixed(cluster)
    table["%cluster_ctarank"], table["%cluster_nctarank"] = rank, fixed(cluster)
    table["%laneid"], table["%warpid"] = lane, (linear // 32).astype(np.uint32)
    table["%nwarpid"], table["%smid"], table["%nsmid"] = fixed(64), fixed(0), fixed(1)
    table["%gridid"] = np.array([1], np.uint64)
    below = (np.uint64(1) << lane.astype(np.uint64)).astype(np.uint32)
    table["%lanemask_eq"], table["%lanemask_lt"] = below, below - np.uint32(1)
    table["%lanemask_le"] = below | (below - np.uint32(1))
    table["%lanemask_gt"], table["%lanemask_ge"] = ~table["%lanemask_le"], ~table["%lanemask_lt"]
    table["%total_smem_size"], table["%dynamic_smem_size"] = fixed(shared[0]), fixed(shared[1])
    table["%is_explicit_cluster"] = np.array([cluster > 1])
    return table
