"""GEMM epilogues: add a bias, apply a GELU.

C ← f(α op(A) op(B) + β C + bias), as cuBLASLt defines an epilogue. `bias` has one element for each row of C. Matrices
are column-major, so C is what a row-major program calls its transpose: with ``layout: tn``, A the weights of a
``torch.nn.Linear`` as PyTorch stores them, B its inputs, m features and n inputs, C is the layer's row-major output,
and `bias` lies along the features as the layer's does.

GELU is x Φ(x), Φ being the normal distribution's function: with erf, ``x / 2 (1 + erf(x / sqrt 2))``, or approximately
with tanh, ``x / 2 (1 + tanh(sqrt(2 / π) (x + 0.044715 x^3)))`` (D. Hendrycks and K. Gimpel, Gaussian Error Linear
Units, 2016). PyTorch's default is erf; cuBLASLt's epilogue has tanh.
"""

from __future__ import annotations

import math
from typing import Final, Literal

import numpy as np

from lab.operators.base import Expected, Floats
from lab.operators.stored import UNIT

Epilogue = Literal["bias", "bias_gelu", "bias_gelu_tanh"]

_STEEPEST: Final = 1.13
"""The largest slope of either GELU form, 1.129 at x = 1.41: the factor by which errors of x can grow."""

_EVALUATION: Final = 16
"""Units in the last place of x that computing a GELU in FP32 may lose. Both forms are x times a factor between 0 and 1.
Of the factor, erf is good to 2 ulp (CUDA C++ Programming Guide, Mathematical Functions), and 1 + erf is rounded once
more; with tanh, the factor is 1 / (1 + exp(-2 u)), whose exponential is off by 2 + 2.4 |u| ulp, which a slope of at
most 1 / 4, and less where |u| is large, takes to below 3 ulp. The rest is reserve."""


def gelu(x: Floats, *, tanh: bool) -> Floats:
    """Compute GELU in float64, any shape; erf is imported with its first use, since few runs need it."""
    if tanh:
        return np.asarray(x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))), np.float64)
    from scipy.special import erf  # noqa: PLC0415 - as said above

    return np.asarray(x / 2 * (1 + erf(x / math.sqrt(2))), np.float64)


def applied(epilogue: Epilogue, product: Expected, bias: Floats) -> Expected:
    """Apply an epilogue to the reference of a GEMM.

    Args:
        epilogue: The epilogue.
        product: α op(A) op(B) + β C, m x n, and a bound of the error of each element in FP32.
        bias: The bias, m elements.

    Returns:
        The result, and a bound of its error in FP32, before it is rounded to C's type.
    """
    values = product.values + bias[:, np.newaxis]
    scale = product.scale + UNIT["float32"] * np.abs(values)
    if epilogue == "bias":
        return Expected(values, scale)
    lost = _EVALUATION * UNIT["float32"] * np.abs(values)
    return Expected(gelu(values, tanh=epilogue == "bias_gelu_tanh"), _STEEPEST * scale + lost)
