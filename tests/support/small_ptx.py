"""Small PTX kernels: one body of instructions for every thread, with inputs and outputs in registers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.emulator.api import launch
from lab.emulator.results import Emulation

HEADER = ".version 8.0\n.target sm_90\n.address_size 64\n"
_REGISTERS = """
.reg .pred %p<16>; .reg .b16 %h<16>; .reg .b32 %r<64>; .reg .b64 %rd<64>; .reg .f32 %f<16>; .reg .f64 %fd<16>;
"""
_TYPES = {"f4": "f32", "f8": "f64", "i4": "b32", "u4": "b32", "i8": "b64", "u8": "b64", "u2": "b16", "i2": "b16"}


def kernel(body: str, parameters: Sequence[str] = (), declarations: str = "", module: str = "") -> str:
    """Return the PTX of a kernel `k` whose parameters are pointers or, with a type such as ``u32 n``, scalars."""
    listed = [name if " " in name else f"u64 {name}" for name in parameters]
    text = ", ".join(f".param .{one}" for one in listed)
    return f"{HEADER}{module}\n.visible .entry k({text})\n{{{_REGISTERS}{declarations}\n{body}\nret;\n}}\n"


def execute(
    body: str,
    *inputs: NDArray[Any],
    out: str = "u4",
    outputs: int = 1,
    block: int | None = None,
    declarations: str = "",
    **options: Any,
) -> tuple[Emulation, NDArray[Any]]:
    """Run a body in one block.

    Args:
        body: PTX; registers `%i0`, `%i1`, ... hold the thread's inputs, and `%o0`, ... are stored when it ends.
            `%r`, `%rd`, `%f`, `%fd`, `%h` and `%p` from 0 to 15 are free.
        inputs: (block,) arrays; their dtype decides the registers'.
        out: NumPy's dtype of the outputs.
        outputs: Number of outputs.
        block: Threads; by default those of the first input, or 32.
        declarations: Further PTX declarations.
        options: For `launch`.

    Returns:
        The emulation, and the outputs as (outputs, block), or (block,) where there is one.
    """
    threads = block or (len(inputs[0]) if inputs else 32)
    names = [f"i{n}" for n in range(len(inputs))]
    lines = ["mov.u32 %r63, %tid.x;"]
    for name, array in zip(names, inputs, strict=True):
        t = _TYPES[array.dtype.str[1:]]
        declarations += f".reg .{t} %{name};\n"
        lines.append(_address(name, array.itemsize) + f"ld.global.{t} %{name}, [%rd63];")
    t = _TYPES[out]
    lines.append(body)
    for n in range(outputs):
        declarations += f".reg .{t} %o{n};\n"
        lines.append(_address(f"o{n}", np.dtype(out).itemsize) + f"st.global.{t} [%rd63], %o{n};")
    results = [np.zeros(threads, out) for _ in range(outputs)]
    ptx = kernel("\n".join(lines), [*names, *(f"o{n}" for n in range(outputs))], declarations)
    emulation = launch(ptx, "k", 1, threads, [*inputs, *results], **options)
    return emulation, results[0] if outputs == 1 else np.array(results)


def _address(name: str, width: int) -> str:
    """Leave the thread's element of an array in %rd63."""
    return f"ld.param.u64 %rd62, [{name}]; mad.wide.u32 %rd63, %r63, {width}, %rd62; "
