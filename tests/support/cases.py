"""Each test kernel on awkward sizes: what is launched, and what must come out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lab.emulator import floats
from lab.emulator.api import launch
from lab.emulator.results import Buffer, Emulation


@dataclass(frozen=True)
class Outcome:
    emulation: Emulation
    found: np.ndarray
    wanted: np.ndarray
    tolerance: float

    @property
    def right(self) -> bool:
        scale = np.abs(self.wanted).max()
        return bool(np.all(np.abs(self.found - self.wanted) <= self.tolerance * scale))


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape, np.float32)


def poisoned(*shape: int, dtype: type = np.float32) -> Buffer:
    return Buffer(np.full(shape, np.nan, dtype), initialised=False, output=True)


def naive(ptx: str, m: int = 19, n: int = 23, k: int = 17, kernel: str = "sgemm") -> Outcome:
    t = np.float32 if kernel == "sgemm" else np.float64
    a, b, c = normal(k, m).astype(t), normal(n, k).astype(t), normal(n, m).astype(t)
    wanted = 1.5 * (b.astype(float) @ a) + 0.5 * c
    args = [m, n, k, t(1.5), a, m, b, k, t(0.5), Buffer(c, output=True), m]
    emulation = launch(ptx, kernel, (-(-m // 8), -(-n // 8)), (8, 8), args)
    return Outcome(emulation, c, wanted, 1e-6 if t == np.float32 else 1e-15)


def _product(ptx: str, m: int, n: int, k: int, tile: int, block: tuple[int, ...]) -> Outcome:
    a, b, c = normal(m, k), normal(k, n), poisoned(m, n)
    grid = (-(-n // tile), -(-m // tile))
    emulation = launch(ptx, "sgemm", grid, block, [m, n, k, a, b, c])
    return Outcome(emulation, c.array, a.astype(float) @ b, 1e-6)


def tiled(ptx: str, m: int = 37, n: int = 45, k: int = 67) -> Outcome:
    return _product(ptx, m, n, k, 32, (32, 32))


def double_buffered(ptx: str, m: int = 130, n: int = 140, k: int = 28) -> Outcome:
    return _product(ptx, m, n, k, 128, (256,))


def multi_stage(ptx: str, m: int = 70, n: int = 65, k: int = 70) -> Outcome:
    return _product(ptx, m, n, k, 64, (256,))


def softmax(ptx: str, kernel: str = "softmax_exact", rows: int = 3, columns: int = 201) -> Outcome:
    x, y = normal(rows, columns), poisoned(rows, columns)
    emulation = launch(ptx, kernel, rows, 128, [x, y, columns])
    e = np.exp(x.astype(float) - x.max(axis=1, keepdims=True))
    return Outcome(emulation, y.array, e / e.sum(axis=1, keepdims=True), 1e-6)


def softmax_fast(ptx: str) -> Outcome:
    return softmax(ptx, "softmax_fast", 2, 131)


def split_k(ptx: str, m: int = 19, n: int = 33, k: int = 70) -> Outcome:
    a, b, c = normal(m, k), normal(k, n), np.zeros((m, n), np.float32)
    args = [m, n, k, 24, a, b, Buffer(c, output=True)]
    emulation = launch(ptx, "sgemm", (-(-n // 16), -(-m // 16), -(-k // 24)), (16, 16), args)
    return Outcome(emulation, c, a.astype(float) @ b, 1e-6)


def transpose(ptx: str, rows: int = 45, cols: int = 70) -> Outcome:
    a, b = normal(rows, cols), poisoned(cols, rows)
    emulation = launch(ptx, "transpose", (-(-cols // 32), -(-rows // 32)), (32, 8), [rows, cols, a, b])
    return Outcome(emulation, b.array, a.T, 0.0)


def rounded_to_bf16(x: np.ndarray) -> np.ndarray:
    return floats.bf16_to_32(floats.f32_to_bf16(x.astype(np.float32)))


def axpy_half2(ptx: str, pairs: int = 101) -> Outcome:
    a, x, y = np.float16(0.7), normal(2 * pairs).astype(np.float16), normal(2, pairs).astype(np.float16).reshape(-1)
    wanted = (np.float64(a) * x.astype(float) + y).astype(np.float16)
    emulation = launch(ptx, "axpy_half2", -(-pairs // 64), 64, [pairs, a, x, Buffer(y, output=True)])
    return Outcome(emulation, y.astype(float), wanted.astype(float), 0.0)


def axpy_bfloat16(ptx: str, n: int = 203) -> Outcome:
    a, x, y = np.float32(0.7), floats.f32_to_bf16(normal(n)), floats.f32_to_bf16(normal(1, n)[0])
    wanted = rounded_to_bf16(a.astype(float) * floats.bf16_to_32(x) + floats.bf16_to_32(y))
    emulation = launch(ptx, "axpy_bfloat16", -(-n // 64), 64, [n, a, x, Buffer(y, output=True)])
    return Outcome(emulation, floats.bf16_to_32(y), wanted, 0.0)


def axpy_bfloat162(ptx: str, pairs: int = 101) -> Outcome:
    a, x, y = np.uint16(0x3F33), floats.f32_to_bf16(normal(2 * pairs)), floats.f32_to_bf16(normal(2, pairs).reshape(-1))
    wanted = rounded_to_bf16(
        floats.bf16_to_32(np.array([a])).astype(float) * floats.bf16_to_32(x) + floats.bf16_to_32(y)
    )
    emulation = launch(ptx, "axpy_bfloat162", -(-pairs // 64), 64, [pairs, a, x, Buffer(y, output=True)])
    return Outcome(emulation, floats.bf16_to_32(y), wanted, 0.0)


def wmma(ptx: str, m: int = 37, n: int = 29, k: int = 41) -> Outcome:
    a, b, c = normal(m, k).astype(np.float16), normal(k, n).astype(np.float16), poisoned(m, n)
    emulation = launch(ptx, "hgemm", (-(-n // 16), -(-m // 16)), 32, [m, n, k, a, b, c])
    return Outcome(emulation, c.array, a.astype(float) @ b.astype(float), 1e-6)


CASES: list[tuple[str, Callable[..., Outcome]]] = [
    ("gemm_naive", naive),
    ("gemm_tiled", tiled),
    ("gemm_128", double_buffered),
    ("gemm_async", multi_stage),
    ("softmax", softmax),
    ("softmax", softmax_fast),
    ("gemm_split_k", split_k),
    ("transpose", transpose),
    ("axpy_half", axpy_half2),
    ("axpy_half", axpy_bfloat16),
    ("axpy_half", axpy_bfloat162),
    ("gemm_wmma", wmma),
]
