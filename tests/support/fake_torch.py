"""PyTorch played with NumPy: device addresses are those of host arrays. Only what the baselines use."""

from __future__ import annotations

import contextlib
import math
import types

import numpy as np
from numpy.lib.stride_tricks import as_strided

from lab.operators.bfloat16 import from_float32, to_float32


class FakeTensor(np.ndarray):
    """A tensor; `view` takes torch's types too."""

    def as_strided(self, sizes, strides):
        return as_strided(self, sizes, [stride * self.itemsize for stride in strides], subok=True)

    def t(self):
        return self.T

    def copy_(self, other):
        self[...] = other

    def masked_fill(self, mask, value):
        return np.where(mask, value, self)

    def view(self, *kind):  # type: ignore[override] # torch has fewer ways
        return super().view(np.uint16) if kind == ("bfloat16",) else super().view(*kind)


class FakeTorch(types.ModuleType):
    """`torch`; `fails` makes every computation run out of memory."""

    __version__ = "2.0"
    bfloat16 = "bfloat16"

    def __init__(self, *, available=True, fails=False):
        super().__init__("torch")
        self.streams: list[int] = []
        self.cuda = types.SimpleNamespace(
            is_available=lambda: available,
            ExternalStream=self._stream,
            stream=lambda own: contextlib.nullcontext(),
        )
        self.fails, self.precision, self.einsums = fails, "high", 0
        self.zeros_like = np.zeros_like
        self.ops = types.SimpleNamespace(aten=types.SimpleNamespace(gelu_=self._gelu_))

    def _stream(self, address):
        self.streams.append(address)
        return types.SimpleNamespace(synchronize=lambda: None)

    def set_float32_matmul_precision(self, name):
        self.precision = name

    def as_tensor(self, data, device):
        assert device == "cuda"
        holder = types.SimpleNamespace(__array_interface__=data.__cuda_array_interface__)
        return np.asarray(holder).view(FakeTensor)

    def einsum(self, equation, a, b):
        self._may_fail()
        assert self.precision == "highest"
        self.einsums += 1
        return np.einsum(equation, a, b)

    def arange(self, end, device):
        assert device == "cuda"
        return np.arange(end)

    def add(self, left, right, alpha):
        return left + alpha * right

    def addmm(self, bias, left, right, *, out):
        self._may_fail()
        out[...] = np.float32(bias) + np.float32(left) @ np.float32(right)

    def _addmm_activation(self, bias, left, right, *, use_gelu, out):
        assert use_gelu
        self._may_fail()
        x = np.float32(bias) + np.float32(left) @ np.float32(right)
        out[...] = x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))

    def _gelu_(self, x):
        x[...] = [[value / 2 * (1 + math.erf(value / math.sqrt(2))) for value in row] for row in x.tolist()]

    def softmax(self, x, axis, out):
        self._may_fail()
        values = to_float32(np.asarray(x)) if x.dtype == np.uint16 else np.asarray(x, np.float32)
        e = np.exp(values - values.max(axis=axis, keepdims=True))
        y = e / e.sum(axis=axis, keepdims=True)
        out[...] = from_float32(y) if x.dtype == np.uint16 else y

    def amax(self, x, axis, *, keepdim):
        self._may_fail()
        return x.max(axis, keepdims=keepdim)

    def sub(self, left, right):
        return left - right

    def exp(self, x):
        return np.exp(x)

    def sum(self, x, axis, *, keepdim):
        return x.sum(axis, keepdims=keepdim)

    def div(self, left, right, out):
        out[...] = left / right

    def _may_fail(self):
        if self.fails:
            raise RuntimeError("CUDA out of memory")
