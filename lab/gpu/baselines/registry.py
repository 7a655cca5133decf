"""The registry of baselines: which function makes which baseline.

`lab.measured.baselines` holds the names. To add a baseline, add its name there, and a maker for each of its operators
here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import pycuda.driver as cuda

from lab.base.expressions import Scalar
from lab.gpu.baselines.copy import copy_baseline
from lab.gpu.baselines.cublas import Cublas, cublas_baseline
from lab.gpu.baselines.cublaslt import CublasLt
from lab.gpu.baselines.einsum import einsum_baseline
from lab.gpu.baselines.linear_torch import linear_baseline
from lab.gpu.baselines.masked_softmax import masked_torch_baseline, masked_triton_baseline
from lab.gpu.baselines.norms import norm_baseline, triton_norm_baseline
from lab.gpu.baselines.softmax import compiled_baseline, naive_baseline, torch_baseline, triton_baseline
from lab.gpu.device.backend import Baseline, BaselineMissingError, Enqueue
from lab.measured.baselines import BASELINES, COPY, CUBLAS, TORCH, TORCH_COMPILE, TORCH_JIT, TORCH_NAIVE, TRITON
from lab.operators.base import Inputs
from lab.operators.contraction import ContractionProblem
from lab.operators.float8 import FORMATS
from lab.operators.gemm import GemmProblem
from lab.operators.masked_softmax import MaskedSoftmaxProblem
from lab.operators.norms import NormProblem
from lab.operators.softmax import SoftmaxProblem


@dataclass(frozen=True, slots=True)
class BaselineSite:
    """The inputs, stream and GPU that a baseline is made for.

    Attributes:
        inputs: The loaded inputs.
        pointers: Device address of every array, by name.
        stream: The stream for all work.
        arch: Architecture of the GPU.
        timed: Times a launch with L2 flushed before it, in milliseconds.
        cublas: Returns cuBLAS on that stream, or raises BaselineMissingError.
    """

    inputs: Inputs
    pointers: Mapping[str, int]
    stream: cuda.Stream
    arch: str
    timed: Callable[[Enqueue], float]
    cublas: Callable[[], Cublas]


Maker = Callable[[Mapping[str, Scalar], BaselineSite], Baseline]
"""A function from a problem and a site to a baseline."""


def make(name: str, operator: str, problem: Mapping[str, Scalar], site: BaselineSite) -> Baseline:
    """Make a baseline.

    Args:
        name: One of `lab.measured.baselines.BASELINES`.
        operator: Name of the operator: ``gemm``.
        problem: The operator's problem, complete.
        site: The site to make it for.

    Raises:
        BaselineMissingError: It does not exist, does not compute the operator, or is not available here.
    """
    if name not in BASELINES:
        raise BaselineMissingError(f"there is no baseline {name!r}; accepted: {', '.join(BASELINES)}")
    maker = MAKERS.get((name, operator)) or MAKERS.get((name, ANY))
    if maker is None:
        raise BaselineMissingError(f"the baseline {name} computes {', '.join(BASELINES[name])}, not {operator}")
    return maker(problem, site)


def _copy(_problem: Mapping[str, Scalar], site: BaselineSite) -> Baseline:
    return copy_baseline(site.inputs, site.pointers, site.stream, site.arch, site.timed)


def _cublas_gemm(problem: Mapping[str, Scalar], site: BaselineSite) -> Baseline:
    if problem.get("dtype") in FORMATS:
        light = CublasLt(site.stream.handle, cuda.mem_alloc)
        return cublas_baseline(
            light, light.gemm(problem, site.inputs, site.pointers), site.stream.handle, site.stream.synchronize
        )
    cublas = site.cublas()
    launch = cublas.gemm(problem, site.inputs, site.pointers)
    return cublas_baseline(cublas, launch, site.stream.handle, site.stream.synchronize)


def _torch_linear(problem: Mapping[str, Scalar], site: BaselineSite) -> Baseline:
    return linear_baseline(GemmProblem.restored(problem), site.inputs, site.pointers, site.stream.handle)


def _torch_softmax(problem: Mapping[str, Scalar], site: BaselineSite) -> Baseline:
    return torch_baseline(SoftmaxProblem.restored(problem), site.pointers, site.stream.handle)


def _naive_softmax(problem: Mapping[str, Scalar], site: BaselineSite) -> Baseline:
    return naive_baseline(SoftmaxProblem.restored(problem), site.pointers, site.stream.handle)


def _jit_softmax(problem: Mapping[str, Scalar], site: BaselineSite) -> Baseline:
    return compiled_baseline(SoftmaxProblem.restored(problem), site.pointers, site.stream.handle, TORCH_JIT)


def _compiled_softmax(problem: Mapping[str, Scalar], site: BaselineSite) -> Baseline:
    return compiled_baseline(SoftmaxProblem.restored(problem), site.pointers, site.stream.handle, TORCH_COMPILE)


def _torch_einsum(problem: Mapping[str, Scalar], site: BaselineSite) -> Baseline:
    return einsum_baseline(ContractionProblem.restored(problem), site.pointers, site.stream.handle)


def _layer_norm(problem: Mapping[str, Scalar], site: BaselineSite) -> Baseline:
    return norm_baseline("layer_norm", NormProblem.restored(problem), site.pointers, site.stream.handle)


def _rms_norm(problem: Mapping[str, Scalar], site: BaselineSite) -> Baseline:
    return norm_baseline("rms_norm", NormProblem.restored(problem), site.pointers, site.stream.handle)


def _triton_layer_norm(problem: Mapping[str, Scalar], site: BaselineSite) -> Baseline:
    norm = NormProblem.restored(problem)
    return triton_norm_baseline("layer_norm", norm, site.pointers, site.stream.handle, site.timed)


def _triton_rms_norm(problem: Mapping[str, Scalar], site: BaselineSite) -> Baseline:
    norm = NormProblem.restored(problem)
    return triton_norm_baseline("rms_norm", norm, site.pointers, site.stream.handle, site.timed)


def _torch_masked(problem: Mapping[str, Scalar], site: BaselineSite) -> Baseline:
    return masked_torch_baseline(MaskedSoftmaxProblem.restored(problem), site.pointers, site.stream.handle)


def _triton_masked(problem: Mapping[str, Scalar], site: BaselineSite) -> Baseline:
    masked_softmax = MaskedSoftmaxProblem.restored(problem)
    return masked_triton_baseline(masked_softmax, site.pointers, site.stream.handle, site.timed)


def _triton_softmax(problem: Mapping[str, Scalar], site: BaselineSite) -> Baseline:
    return triton_baseline(SoftmaxProblem.restored(problem), site.pointers, site.stream.handle, site.timed)


ANY: Final = "*"
"""Placeholder for every operator."""

MAKERS: Final[Mapping[tuple[str, str], Maker]] = MappingProxyType(
    {
        (COPY, ANY): _copy,
        (CUBLAS, "gemm"): _cublas_gemm,
        (TORCH, "gemm"): _torch_linear,
        (TORCH, "softmax"): _torch_softmax,
        (TORCH, "contraction"): _torch_einsum,
        (TORCH, "layer_norm"): _layer_norm,
        (TORCH, "rms_norm"): _rms_norm,
        (TORCH_NAIVE, "softmax"): _naive_softmax,
        (TORCH_JIT, "softmax"): _jit_softmax,
        (TORCH_COMPILE, "softmax"): _compiled_softmax,
        (TRITON, "softmax"): _triton_softmax,
        (TRITON, "layer_norm"): _triton_layer_norm,
        (TRITON, "rms_norm"): _triton_rms_norm,
        (TORCH, "masked_softmax"): _torch_masked,
        (TRITON, "masked_softmax"): _triton_masked,
    }
)
"""The function that makes each baseline, by name and operator."""
