"""Libraries of one kernel for any element type."""

from __future__ import annotations

import dataclasses

from library_support import invented_library

from lab.base.expressions import Scalar
from lab.library.grid import Grid
from lab.library.package import Library
from lab.library.specialise import kernel
from lab.library.tree import build
from lab.templates import front_matter as kernels
from lab.templates.front_matter import Template

TYPES = ("float32", "float64", "float16", "bfloat16", "complex64", "complex128")
GIVEN: dict[str, Scalar] = {"global_split_u": 2, "global_split_u_algorithm": "workspace"}


def library_of(dtype: str, layout: str = "nt") -> tuple[Library, Template]:
    """A library of one kernel, "one", of Tensile's template with `GIVEN`, and the template."""
    template = kernels.load("gemm/tensile.cu.j2", kernels.search_path())
    parameters, grid = template.completed(GIVEN), Grid.of({(1, 1, 1): {"one": 1.0}})
    made = kernel("one", cubin="one.cubin", template=template, parameters=parameters, dtype=dtype, layout=layout)
    plain = invented_library(build(grid), grid, layout)
    return dataclasses.replace(plain, dtype=dtype, kernels=(made,)), template  # type: ignore[arg-type]
