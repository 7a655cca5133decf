"""Survey buffers at the largest size, with inputs and reference generated on the device (`lab.gpu.timing.survey`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import resources
from typing import Any, Final

import numpy as np
import pycuda.driver as cuda

from lab.base.elements import CUDA_NAMES, PARTS, arithmetic_of
from lab.base.expressions import Scalar
from lab.gpu.baselines.cublas import Cublas
from lab.gpu.device.backend import Baseline, DeviceError, Enqueue, RefusedError
from lab.gpu.device.launching import Launcher
from lab.gpu.timing.survey import room
from lab.operators.base import STORED_AS, Inputs
from lab.operators.gemm import SCALARS, Gemm, GemmProblem, bound_of
from lab.operators.stored import parts
from lab.templates.launches import Launches, Workspace
from lab.toolchain.own import compiled

GUARD: Final = 1024
"""Guard elements after C that must not change."""

_TYPES: Final = ("float32", "float64", "float16", "bfloat16", *PARTS)

_HEADERS: Final = {"float16": "cuda_fp16.h", "bfloat16": "cuda_bf16.h"}

_NAN: Final = 0xFF
"""Fill byte whose repetition reads as NaN in every type."""

_THREADS: Final = 256
_BLOCKS: Final = 2048
_TILE: Final = 64
"""Rows and columns of C per block of the reference kernel."""

_TRIED: Final = {"m": 67, "n": 45, "k": 129}
"""Problem size at which the device's reference is validated against NumPy's."""

_ALIKE: Final = 1e-12
"""Relative tolerance between two float64 sums of 129 terms in different orders."""


class CudaField:
    """The survey's buffers and reference kernels on one GPU."""

    def __init__(
        self,
        arch: str,
        stream: cuda.Stream,
        launcher: Launcher,
        cublas: Callable[[], Cublas],
        *,
        dtype: str,
        elements: tuple[int, int, int],
        workspace_bytes: int,
        seed: int,
    ) -> None:
        """Allocate the buffers, fill A and B, and compare the device's reference with NumPy's.

        Args:
            arch: Architecture of the GPU.
            stream: The stream for all work.
            launcher: The launcher for that stream.
            cublas: Returns cuBLAS on that stream, or raises BaselineMissingError.
            dtype: Element type: one of `_TYPES`.
            elements: Elements of A, B and C, enough for every size.
            workspace_bytes: Size of the largest workspace.
            seed: Seed of A and B.

        Raises:
            DeviceError: The element type is not supported, or the reference differs from NumPy's.
        """
        if dtype not in _TYPES:
            raise DeviceError(f"a survey supports {', '.join(_TYPES)}, not in {dtype}")
        self._stream, self._launcher, self._cublas = stream, launcher, cublas
        self._dtype, self._nothing = dtype, np.empty(0, STORED_AS.get(dtype, dtype))
        self._own = cuda.module_from_buffer(compiled(source_of(dtype), "field.cu", arch))
        counts = [max(required, _TRIED["k"] * _TRIED["m"]) + GUARD for required in elements]
        self._buffers = {name: cuda.mem_alloc(self._item * count) for name, count in zip("ABC", counts, strict=True)}
        self._workspace = cuda.mem_alloc(workspace_bytes + self._item * GUARD)
        self._workspace_bytes = workspace_bytes
        self._values = cuda.mem_alloc(self._wide.itemsize * counts[2])
        self._worst = cuda.mem_alloc(8)
        self._norms: dict[str, cuda.DeviceAllocation] = {}
        self._modules: dict[str, cuda.Module] = {}
        self._problem: GemmProblem | None = None
        for name, count, own_seed in (("A", counts[0], 2 * seed), ("B", counts[1], 2 * seed + 1)):
            self._call("fill_normal", _BLOCKS, self._buffers[name], np.int64(count), np.uint64(own_seed))
        for layout in ("nn", "tt"):
            self._try(layout)

    def kernel(self, name: str, cubin: bytes, launches: Launches, problem: Mapping[str, Scalar]) -> Enqueue:
        """Resolve the launches; workspace buffers are packed back to back."""
        if name not in self._modules:
            self._modules[name] = cuda.module_from_buffer(cubin)
        pointers = {**self._pointers, **self._places(launches.workspace)}
        return self._launcher.sequence(self._modules[name], cubin, launches, self._described(problem), pointers)

    def baseline(self, problem: Mapping[str, Scalar]) -> Baseline:
        """Return cuBLAS on the same buffers."""
        cublas = self._cublas()
        launch = cublas.gemm(problem, self._described(problem), self._pointers)
        return Baseline("cublas", cublas.description, "", "", launch)

    def expect(self, problem: Mapping[str, Scalar]) -> None:
        """Compute op(A) op(B) in float64, and the norms by which errors are scaled."""
        self._problem = gemm = GemmProblem.restored(problem)
        m, n, k, layout, lda, ldb = gemm.m, gemm.n, gemm.k, gemm.layout, gemm.lda, gemm.ldb
        ai, ap = (1, lda) if layout[0] == "n" else (lda, 1)
        bp, bj = (1, ldb) if layout[1] == "n" else (ldb, 1)
        self._norms = {name: cuda.mem_alloc(8 * count * gemm.members) for name, count in (("A", m), ("B", n))}
        shape = tuple(np.int32(extent) for extent in (m, n, k))
        member_bytes = {name: self._item * columns * leading for name, (_, columns, leading) in gemm.shapes.items()}
        for i in range(gemm.members):  # members are stored back to back
            at_a, at_b = (np.uintp(int(self._buffers[name]) + i * member_bytes[name]) for name in "AB")
            for name, address, count, step, along in (("A", at_a, m, ai, ap), ("B", at_b, n, bj, bp)):
                vectors = (np.int64(step), np.int64(along), np.int32(k))
                self._call("norms", count, address, *vectors, np.uintp(int(self._norms[name]) + 8 * count * i))
            a, b = (at_a, np.int64(ai), np.int64(ap)), (at_b, np.int64(bp), np.int64(bj))
            output = np.uintp(int(self._values) + self._wide.itemsize * m * n * i)
            self._call("reference", -(-m // _TILE) * -(-n // _TILE), *shape, *a, *b, output)

    def check(self, launch: Enqueue) -> float:
        """Fill C and its guard with NaN, launch, and compare with the reference."""
        assert self._problem is not None  # noqa: S101 - `expect` comes first
        m, n, members = self._problem.m, self._problem.n, self._problem.members
        count = m * n * members
        cuda.memset_d8_async(self._buffers["C"], _NAN, self._item * (count + GUARD), self._stream)
        launch()
        cuda.memset_d8_async(self._worst, 0, 8, self._stream)
        blocks = min(_BLOCKS, -(-(count + GUARD) // _THREADS))
        norms = (self._norms["A"], self._norms["B"])
        shape = tuple(np.int32(extent) for extent in (m, n, members, GUARD))
        bound = map(np.float64, bound_of(self._problem))
        self._call("compare", blocks, self._buffers["C"], self._values, *norms, *shape, *bound, self._worst)
        bits = np.empty(1, np.uint64)
        self._stream.synchronize()
        cuda.memcpy_dtoh(bits, self._worst)
        return float(bits.view(np.float64)[0])

    @property
    def _item(self) -> int:
        """Bytes per element."""
        return self._nothing.itemsize

    @property
    def _wide(self) -> np.dtype[Any]:
        """Element type of the reference."""
        return np.dtype("complex128" if self._dtype in PARTS else "float64")

    @property
    def _pointers(self) -> dict[str, int]:
        return {name: int(buffer) for name, buffer in self._buffers.items()}

    def _places(self, workspace: tuple[Workspace, ...]) -> dict[str, int]:
        """Return the device address of each workspace buffer, by name."""
        start = end = int(self._workspace)
        places: dict[str, int] = {}
        for buffer in workspace:
            places[buffer.name] = end
            end += room(buffer)
        if end - start > self._workspace_bytes + self._item * GUARD:
            raise RefusedError(f"the workspace takes {end - start} bytes; {self._workspace_bytes} were allocated")
        return places

    def _call(self, name: str, blocks: int, *arguments: object) -> None:
        function = self._own.get_function(name)
        function(*arguments, block=(_THREADS, 1, 1), grid=(blocks, 1), stream=self._stream)

    def _try(self, layout: str) -> None:
        """Check the device's reference and norms against NumPy's at a small size, on the generated inputs."""
        gemm = Gemm()
        problem = gemm.problem({**_TRIED, "layout": layout, "dtype": self._dtype})
        self.expect(problem)
        self._stream.synchronize()
        m, n, k = (_TRIED[name] for name in "mnk")
        arrays = {}
        for name, count in (("A", m * k), ("B", k * n)):
            arrays[name] = np.empty(count, self._nothing.dtype)
            cuda.memcpy_dtoh(arrays[name], self._buffers[name])
        rows, columns, computed = np.empty(m), np.empty(n), np.empty(m * n, self._wide)
        for host, device in ((rows, self._norms["A"]), (columns, self._norms["B"]), (computed, self._values)):
            cuda.memcpy_dtoh(host, device)
        inputs = Inputs(self._described(problem).scalars, {**arrays, "C": np.empty(m * n, self._nothing.dtype)}, ("C",))
        expected = gemm.reference(problem, inputs)["C"]
        scale = np.repeat(np.outer(rows, columns), problem.parts, axis=0)
        errors = np.abs(parts(computed).reshape(n, -1).T - expected.values) / scale
        of_scale, of_value, least = bound_of(problem)
        bound = of_scale * scale + of_value * np.abs(expected.values) + least
        if not (errors.max() <= _ALIKE and np.allclose(bound, expected.scale, rtol=_ALIKE, atol=0)):
            raise DeviceError(
                f"the device's reference differs from NumPy's by {errors.max():.3g} of its scale (layout {layout})"
            )

    def _described(self, problem: Mapping[str, Scalar]) -> Inputs:
        """Return the operands' scalars and element type, as a launch needs them."""
        scalars = {name: problem[name] for name in SCALARS if name in problem}
        return Inputs(scalars, dict.fromkeys("ABC", self._nothing), ("C",))


def source_of(dtype: str) -> str:
    """Return the source of the field's kernels for an element type."""
    source = (resources.files("lab.gpu.device") / "field.cu").read_text(encoding="utf-8")
    real_type, arithmetic = PARTS.get(dtype, dtype), arithmetic_of(dtype)
    header = f"#include <{_HEADERS[dtype]}>\n" if dtype in _HEADERS else ""
    defined = {"REAL": CUDA_NAMES[real_type], "PARTS": 2 if dtype in PARTS else 1, "WIDENED": CUDA_NAMES[arithmetic]}
    return "".join((header, *(f"#define {name} {value}\n" for name, value in defined.items()), source))
