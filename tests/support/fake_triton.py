"""Triton played with NumPy: one program, its pointers and blocks of values. Only what the baselines' kernels use."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType, SimpleNamespace

import numpy as np


class Pointer:
    """An address, or a block of addresses, in an array; stores beyond the mask would fail."""

    def __init__(self, array, offset=0):
        self.array, self.offset = array, offset
        self.dtype = SimpleNamespace(element_ty=array.dtype)

    def __add__(self, step):
        return Pointer(self.array, self.offset + step)


class Values(np.ndarray):
    """A block of values; `to` is Triton's conversion."""

    def to(self, dtype):
        return self.astype(dtype)


def load(pointer, mask, other):
    inside = np.where(mask, pointer.offset, 0)
    return np.where(mask, pointer.array[inside], other).astype(np.float64).view(Values)


def store(pointer, values, mask):
    pointer.array[pointer.offset[mask]] = values[mask]


def played(monkeypatch, name):
    """Return a module of kernels, imported with this Triton, and the list that holds the program's number."""
    program = [0]
    language = ModuleType("triton.language")
    members = {
        "constexpr": int, "int64": np.int64, "float32": np.float64, "load": load, "store": store,
        "exp": np.exp, "sqrt": np.sqrt, "maximum": np.maximum, "arange": np.arange, "zeros": np.zeros,
        "where": lambda *of: np.asarray(np.where(*of)).view(Values),
        "full": lambda shape, value, dtype: np.full(shape, value, dtype).view(Values),
        "max": lambda x, axis: np.max(np.asarray(x), axis=axis),
        "sum": lambda x, axis: np.sum(np.asarray(x), axis=axis),
        "program_id": lambda axis: SimpleNamespace(to=lambda dtype: program[axis]),
    }  # fmt: skip
    vars(language).update(members)
    triton = ModuleType("triton")
    vars(triton).update(jit=lambda function: function, language=language)
    monkeypatch.setitem(sys.modules, "triton", triton)
    monkeypatch.setitem(sys.modules, "triton.language", language)
    monkeypatch.delitem(sys.modules, name, raising=False)
    made = importlib.import_module(name)
    monkeypatch.delitem(sys.modules, name)
    return SimpleNamespace(made=made, program=program)
