"""Contexts, GPUs and processes of a library: each program ends with 0 and prints nothing."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from real_libraries import check, operands, poisoned

from lab.base.errors import UserError
from lab.library import dispatch

pytestmark = pytest.mark.gpu

BEGIN = """
import sys

import numpy as np
import lab
from lab.base.errors import UserError

loaded = lab.dispatch.load(sys.argv[1])
host = np.asfortranarray(np.ones((64, 64), np.float32))
"""

PYCUDA_WITHOUT_A_CONTEXT = """
from pycuda import driver, gpuarray
driver.init()
primary = driver.Device(0).retain_primary_context()
primary.push()
arrays = [gpuarray.to_gpu(host) for _ in range(3)]
primary.pop()
loaded.gemm(1.0, arrays[0], arrays[1], 0.0, arrays[2])
assert driver.Context.get_current() is None
primary.push()
assert (arrays[2].get() == 64).all()
arrays.clear()
primary.pop()
"""

PYCUDA_WITH_ITS_OWN = """
import pycuda.autoinit
from pycuda import gpuarray
arrays = [gpuarray.to_gpu(host) for _ in range(3)]
loaded.gemm(1.0, arrays[0], arrays[1], 0.0, arrays[2])
assert (arrays[2].get() == 64).all()
"""

CONTEXTS_THAT_COME_AND_GO = """
from pycuda import driver, gpuarray
driver.init()
for _ in range(4):
    context = driver.Device(0).make_context()
    arrays = [gpuarray.to_gpu(host) for _ in range(3)]
    loaded.gemm(1.0, arrays[0], arrays[1], 0.0, arrays[2])
    assert (arrays[2].get() == 64).all()
    arrays.clear()
    context.pop()
    context.detach()
"""

MEMORY_OF_ANOTHER_CONTEXT = """
from pycuda import driver, gpuarray
driver.init()
first = driver.Device(0).make_context()
arrays = [gpuarray.to_gpu(host) for _ in range(3)]
first.pop()
second = driver.Device(0).make_context()
try:
    loaded.gemm(1.0, arrays[0], arrays[1], 0.0, arrays[2])
except UserError as error:
    assert "A belongs to another context" in str(error), error
else:
    raise SystemExit("nothing was refused")
second.pop()
second.detach()
first.push()
assert (arrays[2].get() == 1).all()
arrays.clear()
first.pop()
first.detach()
"""

TORCH_IN_A_FRESH_THREAD = """
import threading
import torch
arrays = [torch.ones(64, 64, device="cuda").T for _ in range(3)]
torch.cuda.synchronize()
thread = threading.Thread(target=lambda: loaded.gemm(1.0, arrays[0], arrays[1], 0.0, arrays[2]))
thread.start()
thread.join()
torch.cuda.synchronize()
assert (arrays[2] == 64).all()
"""

CUPY = """
import cupy
arrays = [cupy.asfortranarray(cupy.asarray(host)) for _ in range(3)]
loaded.gemm(1.0, arrays[0], arrays[1], 0.0, arrays[2])
assert (cupy.asnumpy(arrays[2]) == 64).all()
"""

FORK = """
import os
import torch
arrays = [torch.ones(64, 64, device="cuda").T for _ in range(3)]
loaded.gemm(1.0, arrays[0], arrays[1], 0.0, arrays[2])
child = os.fork()
if child == 0:
    try:
        loaded.gemm(1.0, arrays[0], arrays[1], 0.0, arrays[2])
    except UserError as error:
        os._exit(0 if "forked" in str(error) else 1)
    os._exit(2)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


@pytest.mark.parametrize(
    ("needs", "program"),
    [
        pytest.param("pycuda", PYCUDA_WITHOUT_A_CONTEXT, id="PyCUDA without a current context"),
        pytest.param("pycuda", PYCUDA_WITH_ITS_OWN, id="PyCUDA with one"),
        pytest.param("pycuda", CONTEXTS_THAT_COME_AND_GO, id="contexts that come and go"),
        pytest.param("pycuda", MEMORY_OF_ANOTHER_CONTEXT, id="memory of another context"),
        pytest.param("torch", TORCH_IN_A_FRESH_THREAD, id="PyTorch in a fresh thread"),
        pytest.param("cupy", CUPY, id="CuPy"),
        pytest.param("torch", FORK, id="a forked process"),
    ],
)
def test_a_program_ends_with_0(nn, needs, program):
    pytest.importorskip(needs)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", BEGIN + program, str(nn[0])],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_two_gpus_are_used_in_turn(nn):
    torch = pytest.importorskip("torch")
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    loaded = dispatch.load(nn[0])
    m, n, k = 257, 130, 1000
    a, b = operands("nn", m, n, k)

    def moved(gpu):
        return [torch.from_numpy(np.ascontiguousarray(x.T)).to(f"cuda:{gpu}").T for x in (a, b, poisoned(m, n, 0.0))]

    for gpu in (0, 1, 0, 1):
        x, y, z = moved(gpu)
        with torch.cuda.device(gpu):
            loaded.gemm(1.0, x, y, 0.0, z, stream=torch.cuda.current_stream())
            torch.cuda.synchronize()
        check("nn", a, b, (1.0, 0.0), poisoned(m, n, 0.0), z.cpu().numpy())
    x, y, z = moved(1)
    with torch.cuda.device(0), pytest.raises(UserError, match="A lies on another GPU"):
        loaded.gemm(1.0, x, y, 0.0, z)
    assert bool(torch.isnan(z).all())
