"""``C ← α W + β C`` with α and β in GPU memory: the extra launch of a GEMM with such scalars.

A library's kernels take α and β by value, which costs a call with numbers of the host nothing. Where one of them is
known to the GPU alone, the product ``W = op(A) op(B)`` goes to the workspace, and one more launch writes C. That serves
every library, those made before there was such a launch among them, and makes only these calls dearer: by a launch,
and by m n elements written and read once more. Kernels that read α and β from memory would be a second copy of each.

The launch is PTX, which the driver compiles: it needs no compiler, and runs on any GPU.
"""

from __future__ import annotations

import ctypes
from dataclasses import replace
from functools import lru_cache
from string import Template

import numpy as np

from lab.base.errors import UserError
from lab.base.functions import ceil_div
from lab.library.calls import CallForm, Matrix
from lab.library.driver import LaunchConfig

ENTRY = "combine"
THREADS = 256
"""Threads per block; each thread writes one element of C."""

_PTX_TYPES = {"float32": "f32", "float64": "f64"}

_PTX = Template("""\
// C = alpha W + beta C: C is column-major with a leading dimension, W has no gaps. A scalar is read from its address,
// or is the value beside it where the address is 0. With beta = 0, C is not read; with alpha = 0, W is not.
.version 6.0
.target sm_50
.address_size 64

.visible .entry $entry(
    .param .u32 rows, .param .u32 elements, .param .u32 leading,
    .param .u64 alpha_at, .param .$T alpha, .param .u64 W,
    .param .u64 beta_at, .param .$T beta, .param .u64 C)
{
    .reg .pred %there, %beyond, %no_w, %no_c;
    .reg .u32 %i, %block, %rows, %elements, %column, %row, %place;
    .reg .u64 %at, %w, %c;
    .reg .$T %alpha, %beta, %old, %value;

    mov.u32 %i, %tid.x;
    mov.u32 %block, %ctaid.x;
    mad.lo.u32 %i, %block, $threads, %i;
    ld.param.u32 %elements, [elements];
    setp.ge.u32 %beyond, %i, %elements;
    @%beyond bra END;

    ld.param.$T %alpha, [alpha];
    ld.param.u64 %at, [alpha_at];
    setp.ne.u64 %there, %at, 0;
    @%there cvta.to.global.u64 %at, %at;
    @%there ld.global.$T %alpha, [%at];
    ld.param.$T %beta, [beta];
    ld.param.u64 %at, [beta_at];
    setp.ne.u64 %there, %at, 0;
    @%there cvta.to.global.u64 %at, %at;
    @%there ld.global.$T %beta, [%at];
    setp.eq.$T %no_w, %alpha, $zero;
    setp.eq.$T %no_c, %beta, $zero;

    ld.param.u32 %rows, [rows];
    div.u32 %column, %i, %rows;
    mul.lo.u32 %row, %column, %rows;
    sub.u32 %row, %i, %row;
    ld.param.u32 %place, [leading];
    mad.lo.u32 %place, %column, %place, %row;
    ld.param.u64 %w, [W];
    cvta.to.global.u64 %w, %w;
    mad.wide.u32 %w, %i, $bytes, %w;
    ld.param.u64 %c, [C];
    cvta.to.global.u64 %c, %c;
    mad.wide.u32 %c, %place, $bytes, %c;

    mov.$T %value, $zero;
    @!%no_w ld.global.$T %value, [%w];
    @!%no_w mul.rn.$T %value, %value, %alpha;
    @!%no_c ld.global.$T %old, [%c];
    @!%no_c fma.rn.$T %value, %old, %beta, %value;
    st.global.$T [%c], %value;
END:
    ret;
}
""")


def has_combination(dtype: str) -> bool:
    """Return whether α and β may be on the GPU for this element type."""
    return dtype in _PTX_TYPES


@lru_cache(maxsize=8)
def combine_ptx(dtype: str) -> str:
    """Return the launch's PTX.

    Args:
        dtype: Element type of the library, by NumPy's name.

    Raises:
        UserError: There is none for the type.
    """
    if not has_combination(dtype):
        accepted = f"numbers of the host; on the GPU, those of a library of {' or '.join(_PTX_TYPES)}"
        raise UserError(
            "alpha and beta of this library cannot lie on the GPU", code="unsupported", found=dtype, accepted=accepted
        )
    zero = "0f00000000" if dtype == "float32" else "0d0000000000000000"
    bytes_ = np.dtype(dtype).itemsize
    return _PTX.substitute(entry=ENTRY, T=_PTX_TYPES[dtype], threads=THREADS, zero=zero, bytes=bytes_)


@lru_cache(maxsize=1024)
def product_form(form: CallForm) -> CallForm:
    """Return the form of the GEMM alone; its result W is contiguous and reused by the batch members in turn.

    So each member is launched for itself, by a library of batches, too, as a batch of one.
    """
    a, b, c = form.matrices
    w = Matrix(c.rows, c.columns, c.rows, c.item)
    m, n, k, lda, ldb = form.point[:5]
    alone = (1, 0, 0, 0) if form.together else ()
    spans, steps = (*form.spans[:2], w.span), (*form.steps[:2], 0)
    return replace(form, matrices=(a, b, w), spans=spans, steps=steps, point=(m, n, k, lda, ldb, m, *alone))


class Combination:
    """The launch for matrices of one form on one stream, in the driver's format. Addresses and scalars can change."""

    def __init__(self, form: CallForm, dtype: str, function: int, stream: int) -> None:
        """Build the kernel arguments and the launch configuration.

        Args:
            form: The matrices.
            dtype: Their element type.
            function: The driver's handle of `ENTRY`.
            stream: Of the stream.
        """
        m, n = form.point[:2]
        real = ctypes.c_float if dtype == "float32" else ctypes.c_double
        self._alpha_at, self._w, self._beta_at, self._c = (ctypes.c_uint64() for _ in range(4))
        self._alpha, self._beta = real(), real()
        arguments = (
            *(ctypes.c_uint32(number) for number in (m, m * n, form.point[5])),
            *(self._alpha_at, self._alpha, self._w, self._beta_at, self._beta, self._c),
        )
        grid, block = (ctypes.c_uint * 3)(ceil_div(m * n, THREADS), 1, 1), (ctypes.c_uint * 3)(THREADS, 1, 1)
        configuration = LaunchConfig(grid, block, 0, stream, None, 0)
        places = (ctypes.c_void_p * len(arguments))(*map(ctypes.addressof, arguments))
        self._kept = arguments, configuration, places
        self._launch = ctypes.addressof(configuration), function, ctypes.addressof(places)

    def launch(self, alpha: tuple[int, float], w: int, beta: tuple[int, float], c: int) -> tuple[int, int, int]:
        """Return the configuration, the function and the arguments of a launch.

        Args:
            alpha: Address, 0 for none, and value.
            w: Address of W.
            beta: As alpha.
            c: Address of C.
        """
        self._alpha_at.value, self._alpha.value = alpha
        self._beta_at.value, self._beta.value = beta
        self._w.value, self._c.value = w, c
        return self._launch
