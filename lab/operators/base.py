"""What an operator must provide.

An operator says *what* is computed: the problem's own fields, its inputs, the NumPy reference and how
close an output must come, and how many operations and bytes it takes at least. It knows nothing of
kernels or GPUs. Buffers and scalars are named; a template's `arguments` refer to these names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from lab.base.expressions import Scalar
from lab.measured.timing import Merit

Array = NDArray[Any]

STORED_AS = {"bfloat16": "uint16"}
"""Element types that NumPy does not have, and the type of the host arrays that hold their bits."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """Everything a launch needs.

    Attributes:
        scalars: Name to Python number: dimensions, leading dimensions, factors.
        arrays: Name to host array, in the memory layout the kernel sees (1-D, the padding of leading
            dimensions included). Outputs are present too, holding what they hold before the launch.
        outputs: Names of the arrays that the kernel writes.
    """

    scalars: Mapping[str, Scalar]
    arrays: Mapping[str, Array]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Expected:
    """The reference of one output.

    Attributes:
        values: float64, in the output's logical shape.
        scale: What the error of each element is relative to; the same shape, never 0.
    """

    values: Array
    scale: Array


class Operator(Protocol):
    """One thing to compute, for any problem of its kind."""

    @property
    def name(self) -> str:
        """As reports call it: `gemm`."""

    @property
    def merit(self) -> Merit:
        """What throughput counts: `Merit.TFLOPS`, or `Merit.BANDWIDTH` where moving the bytes is the work."""

    def problem(self, values: Mapping[str, Scalar]) -> Mapping[str, Scalar]:
        """Check the fields of a problem and fill in defaults; also derives fields such as leading dimensions.

        Raises:
            UserError: an unknown field, a wrong type, a value out of range (`key` names the field).
        """

    def inputs(self, problem: Mapping[str, Scalar], seed: int) -> Inputs:
        """Random normal inputs. Outputs that are only written are filled with NaN, as is all padding."""

    def reference(self, problem: Mapping[str, Scalar], inputs: Inputs) -> Mapping[str, Expected]:
        """What each output must hold, computed in float64. Costly for large problems: computed once a problem."""

    def verify(
        self, problem: Mapping[str, Scalar], reference: Mapping[str, Expected], outputs: Mapping[str, Array]
    ) -> tuple[float, float, str]:
        """Compare outputs with the reference.

        Returns:
            (max_error, tolerance, worst): see `lab.measured.timing.Verification`. Passed when
            ``max_error <= tolerance`` (so NaN fails).
        """

    def flops(self, problem: Mapping[str, Scalar]) -> int:
        """Floating-point operations that the problem needs (an fma is two); may be 0 where throughput counts bytes."""

    def bytes_moved(self, problem: Mapping[str, Scalar]) -> int:
        """Least bytes through DRAM: each input read once, each output written once."""

    def fma_dtype(self, problem: Mapping[str, Scalar]) -> np.dtype[Any]:
        """The arithmetic type that decides which peak applies: float32, float64, float16."""


@runtime_checkable
class Elementwise(Protocol):
    """What an operator may provide besides: its comparison in a form that the GPU can do where the outputs are."""

    def elementwise(
        self, problem: Mapping[str, Scalar], reference: Mapping[str, Expected]
    ) -> tuple[Mapping[str, Expected], float] | None:
        """The reference laid out like the outputs' buffers, for comparing them where they are.

        Returns:
            (expected, tolerance) where `verify` finds ``max |output - values| / scale`` in float64: an element of
            `values` and `scale` for each of a buffer, in its order, `scale` NaN where the buffer must keep its NaN.
            None where `verify` compares in another way.
        """
