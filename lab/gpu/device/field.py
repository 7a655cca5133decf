"""Buffers at the largest size of a survey, with inputs and reference made by the device (`lab.gpu.timing.survey`)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np
import pycuda.driver as cuda

from lab.base.expressions import Scalar
from lab.gpu.device.backend import Baseline, DeviceError, Launch, RefusedError, in_turn
from lab.gpu.timing.survey import room
from lab.operators.base import Inputs
from lab.operators.gemm import Gemm, GemmProblem
from lab.templates.launches import Launches
from lab.toolchain.base import CompileRequest
from lab.toolchain.select import toolchain

if TYPE_CHECKING:
    from lab.gpu.device.cuda import CudaBackend

GUARD = 1024
"""Floats behind C that must stay as they are."""
_NAN = 0xFFFFFFFF
_THREADS, _BLOCKS = 256, 2048
_TRIED = {"m": 67, "n": 45, "k": 129}
"""The size at which the device's reference is held against NumPy's before it is trusted."""
_ALIKE = 1e-12
"""Two float64 sums of 129 terms in different orders differ by less, relative to their scale."""


class CudaField:
    """One GPU's."""

    def __init__(
        self, backend: CudaBackend, dtype: str, elements: tuple[int, int, int], workspace_bytes: int, seed: int
    ) -> None:
        """Allocate, fill, and hold the reference against NumPy's.

        Raises:
            DeviceError: another element type than float32; or the reference is not what NumPy finds.
        """
        if dtype != "float32":
            raise DeviceError(f"a survey computes in float32, not {dtype}")
        self._backend = backend
        source = (resources.files("lab.gpu.device") / "field.cu").read_text(encoding="utf-8")
        request = CompileRequest(source, "field.cu", backend.describe().arch)
        self._own = cuda.module_from_buffer(toolchain("nvrtc").compile(request).cubin)
        room = [max(wanted, _TRIED["k"] * _TRIED["m"]) + GUARD for wanted in elements]
        self._buffers = {name: cuda.mem_alloc(4 * count) for name, count in zip("ABC", room, strict=True)}
        self._workspace = cuda.mem_alloc(workspace_bytes + 4 * GUARD)
        self._workspace_bytes = workspace_bytes
        self._values = cuda.mem_alloc(8 * room[2])
        self._worst = cuda.mem_alloc(8)
        self._norms: dict[str, Any] = {}
        self._modules: dict[str, Any] = {}
        self._problem: GemmProblem | None = None
        for name, count, own_seed in (("A", room[0], 2 * seed), ("B", room[1], 2 * seed + 1)):
            self._call("fill_normal", _BLOCKS, self._buffers[name], np.int64(count), np.uint64(own_seed))
        for layout in ("nn", "tt"):
            self._try(layout)

    def kernel(self, name: str, cubin: bytes, launches: Launches, problem: Mapping[str, Scalar]) -> Launch:
        """Resolve the launches; workspace buffers lie one behind the other."""
        if name not in self._modules:
            self._modules[name] = cuda.module_from_buffer(cubin)
        addresses: dict[str, int] = {}
        end = int(self._workspace)
        queues: list[Launch] = []
        for wanted in launches.workspace:
            addresses[wanted.name] = end
            if wanted.zero:
                queues.append(partial(cuda.memset_d8_async, end, 0, wanted.bytes, self._backend.stream))
            end += room(wanted)
        if end - int(self._workspace) > self._workspace_bytes + 4 * GUARD:
            raise RefusedError(f"the workspace takes more than the {self._workspace_bytes} bytes that were made for it")
        inputs, pointers = self._inputs(problem), {**self._pointers, **addresses}
        module = self._modules[name]
        queues += [
            self._backend.queue(module, step, launches, inputs, pointers, cubin=cubin) for step in launches.steps
        ]
        return in_turn(queues)

    def baseline(self, problem: Mapping[str, Scalar]) -> Baseline:
        """CuBLAS on the same buffers."""
        cublas = self._backend.cublas()
        launch = cublas.gemm(problem, self._inputs(problem), self._pointers)
        return Baseline("cublas", cublas.description, "", "", launch)

    def expect(self, problem: Mapping[str, Scalar]) -> None:
        """Op(A) op(B) in float64, and the norms that errors are relative to."""
        self._problem = gemm = GemmProblem.restored(problem)
        m, n, k, layout, lda, ldb = gemm.m, gemm.n, gemm.k, gemm.layout, gemm.lda, gemm.ldb
        ai, ap = (1, lda) if layout[0] == "n" else (lda, 1)
        bp, bj = (1, ldb) if layout[1] == "n" else (ldb, 1)
        self._norms = {}
        for name, count, apart, step in (("A", m, ai, ap), ("B", n, bj, bp)):
            self._norms[name] = cuda.mem_alloc(8 * count)
            vectors = (np.int64(apart), np.int64(step), np.int32(k))
            self._call("norms", count, self._buffers[name], *vectors, self._norms[name])
        shape = tuple(np.int32(extent) for extent in (m, n, k))
        a = (self._buffers["A"], np.int64(ai), np.int64(ap))
        b = (self._buffers["B"], np.int64(bp), np.int64(bj))
        self._call("reference", -(-m // 64) * -(-n // 64), *shape, *a, *b, self._values)

    def check(self, launch: Launch) -> float:
        """Poison, launch, compare."""
        assert self._problem is not None  # noqa: S101 - `expect` comes first
        m, n = self._problem.m, self._problem.n
        stream = self._backend.stream
        cuda.memset_d32_async(self._buffers["C"], _NAN, m * n + GUARD, stream)
        launch()
        cuda.memset_d8_async(self._worst, 0, 8, stream)
        blocks = min(_BLOCKS, -(-(m * n + GUARD) // _THREADS))
        norms = (self._norms["A"], self._norms["B"])
        shape = tuple(np.int32(extent) for extent in (m, n, GUARD))
        self._call("compare", blocks, self._buffers["C"], self._values, *norms, *shape, self._worst)
        bits = np.empty(1, np.uint64)
        stream.synchronize()
        cuda.memcpy_dtoh(bits, self._worst)
        return float(bits.view(np.float64)[0])

    @property
    def _pointers(self) -> dict[str, int]:
        return {name: int(buffer) for name, buffer in self._buffers.items()}

    @staticmethod
    def _inputs(problem: Mapping[str, Scalar]) -> Inputs:
        """What a launch needs to know of the operands: their scalars, and their element type."""
        nothing = np.empty(0, np.float32)
        scalars = {name: problem[name] for name in ("m", "n", "k", "alpha", "beta", "lda", "ldb", "ldc")}
        return Inputs(scalars, dict.fromkeys("ABC", nothing), ("C",))

    def _call(self, name: str, blocks: int, *arguments: object) -> None:
        function = self._own.get_function(name)
        function(*arguments, block=(_THREADS, 1, 1), grid=(blocks, 1), stream=self._backend.stream)

    def _try(self, layout: str) -> None:
        """Hold reference and norms against NumPy's at a small size, on the inputs that the device made."""
        gemm = Gemm()
        problem = gemm.problem({**_TRIED, "layout": layout})
        self.expect(problem)
        self._backend.stream.synchronize()
        m, n, k = (_TRIED[name] for name in "mnk")
        arrays = {}
        for name, count in (("A", m * k), ("B", k * n)):
            arrays[name] = np.empty(count, np.float32)
            cuda.memcpy_dtoh(arrays[name], self._buffers[name])
        rows, columns, got = np.empty(m), np.empty(n), np.empty(m * n)
        for host, device in ((rows, self._norms["A"]), (columns, self._norms["B"]), (got, self._values)):
            cuda.memcpy_dtoh(host, device)
        inputs = Inputs(self._inputs(problem).scalars, {**arrays, "C": np.empty(m * n, np.float32)}, ("C",))
        expected = gemm.reference(problem, inputs)["C"]
        scale = np.outer(rows, columns)
        wrong = np.abs(got.reshape(n, m).T - expected.values) / expected.scale
        if not (wrong.max() <= _ALIKE and np.allclose(scale, expected.scale, rtol=_ALIKE)):
            raise DeviceError(
                f"the device's reference differs from NumPy's by {wrong.max():.3g} of its scale ({layout})"
            )
