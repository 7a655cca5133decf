"""Libraries of every element type: arrays, factors, the C, and what a call launches."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess

import numpy as np
import pytest
from fake_cuda import SIGNATURES, FakeCuda
from library_support import ADDRESS, OnGpu, fortran
from mistakes import coded
from narrowing import known
from typed_libraries import GIVEN, TYPES, library_of

from lab.base.elements import ELEMENT_BYTES
from lab.base.errors import UserError
from lab.library import dispatch, queues
from lab.library.calls import plan
from lab.library.driver import CudaDriver
from lab.library.emit import to_header, write
from lab.library.package import from_json, to_json
from lab.library.scalars import is_element
from lab.operators.builtin import operator
from lab.templates.instance import Instance
from lab.toolchain import locate

STORED = {"bfloat16": "uint16"}


class Named:
    """An element type that NumPy lacks, as `ml_dtypes` and PyTorch have it."""

    def __init__(self, name):
        self.name = name


@pytest.mark.parametrize(
    ("kind", "dtype", "fits"),
    [
        ("<f2", "float16", True),
        (np.dtype("complex64"), "complex64", True),
        ("<c16", "complex64", False),
        ("<u2", "bfloat16", True),
        (Named("bfloat16"), "bfloat16", True),
        ("bfloat16", "bfloat16", True),
        ("<f2", "bfloat16", False),
        ("<u2", "float16", False),
        (Named("bfloat16"), "float16", False),
        (object(), "float32", False),
    ],
)
def test_elements_are_known_by_their_names_and_bfloat16_by_its_bits(kind, dtype, fits):
    assert is_element(kind, dtype) is fits


def test_bits_are_no_elements_of_a_library_that_knows_the_type():
    assert not is_element("uint16", "bfloat16", bits=False)


@pytest.mark.parametrize("dtype", TYPES)
def test_a_plan_is_the_templates(dtype):
    library, template = library_of(dtype)
    assert from_json(to_json(library)) == library
    problem = operator("gemm").problem({"m": 37, "n": 20, "k": 40, "dtype": dtype, "layout": "nt", "alpha": 1.5})
    expected = Instance.of(template, GIVEN, problem).launches
    point = {name: problem[name] for name in ("m", "n", "k", "lda", "ldb", "ldc", *library.factors)}
    planned = plan(library, point)
    assert [(step.entry, step.grid, step.shared_bytes) for step in planned.steps] == [
        (step.entry, step.grid, step.dynamic_shared_bytes) for step in expected.steps
    ]
    assert [step.names for step in planned.steps] == [
        tuple(name for name, _ in step.arguments) for step in expected.steps
    ]
    assert planned.buffers[0].bytes == expected.workspace[0].bytes == 37 * 20 * 2 * max(4, ELEMENT_BYTES[dtype])


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc compiles what is emitted")
def test_the_c_of_every_type_compiles_without_warnings(tmp_path):
    sources = []
    for dtype in TYPES:
        library = dataclasses.replace(library_of(dtype)[0], name=f"gemm_{dtype}")
        write(library, {"one": b"test data"}, tmp_path)
        sources.append(tmp_path / f"gemm_{dtype}.c")
        taken = {"complex64": "cuFloatComplex alpha", "float64": "double alpha", "bfloat16": "float alpha"}
        assert taken.get(dtype, "alpha") in to_header(library)
    headers = str(known(locate.headers()))
    command = ["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", "-I", headers]
    run = subprocess.run([*command, *sources], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")


@pytest.fixture
def cuda(monkeypatch):
    fake = FakeCuda()
    monkeypatch.setattr(queues, "cuda_driver", lambda: CudaDriver(fake))
    return fake


@pytest.mark.parametrize("dtype", TYPES)
def test_a_call_passes_the_parts_of_its_factors(tmp_path, cuda, monkeypatch, dtype):
    library, _ = library_of(dtype)
    write(library, {"one": b"one"}, tmp_path)
    loaded = dispatch.load(tmp_path)
    arrays = [
        OnGpu(fortran(*shape, STORED.get(dtype, dtype)), address=ADDRESS * i)
        for i, shape in enumerate([(32, 8), (16, 8), (32, 16)], 1)
    ]
    steps = {step.entry: step.names for step in plan(library, point_of(library)).steps}
    for step in plan(library, point_of(library)).steps:
        monkeypatch.setitem(SIGNATURES, step.entry, step.codes)
    a, b, c = arrays
    alpha, beta = (2.5 - 1j, 0.5j) if dtype.startswith("complex") else (2.5, 0.5)
    loaded.gemm(alpha, a, b, beta, c)
    launched = {one[0]: dict(zip(steps[one[0]], one[-1], strict=True)) for one in cuda.log if one[0] in steps}
    assert set(launched) == set(steps)
    for named in launched.values():
        assert named["alpha"] == complex(alpha).real
        assert named.get("alpha_imag", 0.0) == complex(alpha).imag
        assert named.get("beta_imag", 0.0) == complex(beta).imag
    wrong = OnGpu(fortran(32, 8, "int32"), address=ADDRESS)
    with pytest.raises(UserError, check=coded("wrong-type", key="A", found="<i4")):
        loaded.gemm(alpha, wrong, b, beta, c)


def point_of(library):
    return {"m": 32, "n": 16, "k": 8, "lda": 32, "ldb": 16, "ldc": 32, **dict.fromkeys(library.factors, 1.0)}
