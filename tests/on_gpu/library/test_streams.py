"""Streams, threads, graphs, workspaces and batches of a library on a real GPU, with PyTorch, CuPy and PyCUDA."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
from real_libraries import cases, check, kernels_for, operands, poisoned

from lab.base.errors import UserError
from lab.library import dispatch

pytestmark = pytest.mark.gpu

SIZE = (257, 130, 1000)


@pytest.fixture(scope="module")
def torch(gpu):
    module = pytest.importorskip("torch")
    module.cuda.init()
    return module


@pytest.fixture
def loaded(nn):
    made = dispatch.load(nn[0])
    assert isinstance(made, dispatch.Dispatcher)
    return made


def moved(torch, array):
    """A column-major tensor on the GPU; aligned, as PyTorch allocates."""
    return torch.from_numpy(np.ascontiguousarray(array.T)).cuda().T


def tensors(torch, m, n, k):
    a, b = operands("nn", m, n, k)
    return (a, b), [moved(torch, x) for x in (a, b, poisoned(m, n, 0.0))]


def streams(torch, cupy, pycuda):
    side = torch.cuda.Stream()
    return [
        None,
        side,
        side.cuda_stream,
        cupy.cuda.Stream(non_blocking=True),
        pycuda.Stream(),
        SimpleNamespace(__cuda_stream__=lambda: (0, side.cuda_stream)),
        torch.cuda.default_stream(),
    ]


def test_every_librarys_stream_is_taken(torch, loaded, driver):
    cupy = pytest.importorskip("cupy")
    for stream in streams(torch, cupy, driver):
        (a, b), (x, y, z) = tensors(torch, *SIZE)
        torch.cuda.synchronize()
        loaded.gemm(1.0, x, y, 0.0, z, stream=stream)
        torch.cuda.synchronize()
        check("nn", a, b, (1.0, 0.0), poisoned(*SIZE[:2], 0.0), z.cpu().numpy())


SPIN = """
extern "C" __global__ void spin(long long cycles)
{
    const long long start = clock64();
    while (clock64() - start < cycles) { }
}
"""


def test_what_cupy_still_writes_is_waited_for_on_the_gpu(loaded, nn, driver):
    cupy = pytest.importorskip("cupy")
    m, n, k = SIZE
    a, b = operands("nn", m, n, k)
    spin = cupy.RawKernel(SPIN, "spin")
    late, own = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    x, y, z = (cupy.empty(shape, cupy.float32, order="F") for shape in ((m, k), (k, n), (m, n)))
    ready = cupy.asfortranarray(cupy.asarray(a)), cupy.asfortranarray(cupy.asarray(b))
    loaded.prepare(m, n, k, stream=own)
    with late:  # the first launch of a kernel compiles it, which may take longer than the second one spins
        spin((1,), (1,), (np.int64(1),))
        x[...], y[...] = ready
    cupy.cuda.Device().synchronize()
    x.fill(np.nan)
    cupy.cuda.Device().synchronize()
    with late:
        spin((1,), (1,), (np.int64(200_000_000),))  # a tenth of a second
        x[...], y[...] = ready
        loaded.gemm(1.0, x, y, 0.0, z, stream=own)
        assert not late.done  # the call waited for nothing
    own.synchronize()
    check("nn", a, b, (1.0, 0.0), poisoned(m, n, 0.0), cupy.asnumpy(z))


def test_streams_and_threads_do_not_disturb_each_other(torch, loaded, nn):
    """Eight threads on four streams: each stream's scratch is used by two threads, and by no other stream."""
    four = [torch.cuda.Stream() for _ in range(4)]

    def work(number):
        torch.cuda.set_device(0)
        stream = four[number % 4]
        products = []
        with torch.cuda.stream(stream):
            for i, (size, (alpha, _)) in enumerate(cases(nn[1])):
                (a, b), (x, y, z) = tensors(torch, *size)
                for _ in range(3 + i % 2):
                    loaded.gemm(alpha, x, y, 0.0, z, stream=stream)
                stream.synchronize()
                products.append((size, alpha, a, b, z.cpu().numpy()))
        return products

    with ThreadPoolExecutor(8) as pool:
        for results in pool.map(work, range(8)):
            for (m, n, _), alpha, a, b, got in results:
                check("nn", a, b, (alpha, 0.0), poisoned(m, n, 0.0), got)


@pytest.mark.parametrize("own", [False, True])
def test_the_first_call_of_a_size_can_be_captured(torch, loaded, nn, gpu, own):
    picked = set()
    for m, n, k in nn[1]:
        (a, b), (x, y, z) = tensors(torch, m, n, k)
        side = torch.cuda.Stream()
        loaded.prepare(m, n, k, stream=side, scratch=not own)
        room = torch.full((max(1, loaded.workspace_bytes(m, n, k)),), 0xFF, dtype=torch.uint8, device="cuda")
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):
            loaded.gemm(2.0, x, y, 0.0, z, stream=side, workspace=room if own else None)
        for factor in (1.0, -3.0):
            x.copy_(moved(torch, np.float32(factor) * a))
            graph.replay()
            torch.cuda.synchronize()
            check("nn", a, b, (2.0 * factor, 0.0), poisoned(m, n, 0.0), z.cpu().numpy())
        picked.add(loaded.select(m, n, k))
    assert picked == set(kernels_for(gpu.arch))


def test_a_call_that_was_not_prepared_is_refused_in_a_capture(torch, loaded):
    _, (x, y, z) = tensors(torch, *SIZE)
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with pytest.raises(UserError, match="prepare"), torch.cuda.graph(torch.cuda.CUDAGraph(), stream=side):
        loaded.gemm(1.0, x, y, 0.0, z, stream=side)
    torch.cuda.synchronize()
    assert bool(torch.isnan(z).all())


def test_a_load_in_one_thread_leaves_the_capture_of_another_alone(torch, nn):
    """PyTorch captures in the global mode, in which no thread may allocate unless it says that it does not mind."""
    (a, b), (x, y, z) = tensors(torch, *SIZE)
    captured = torch.zeros(8, device="cuda")
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()

    def call():
        torch.cuda.set_device(0)
        dispatch.load(nn[0]).gemm(1.0, x, y, 0.0, z, stream=side)

    with ThreadPoolExecutor(1) as pool, torch.cuda.graph(graph):
        captured.add_(1)
        pool.submit(call).result()
        captured.add_(1)
    graph.replay()
    torch.cuda.synchronize()
    assert captured.tolist() == [2.0] * 8
    check("nn", a, b, (1.0, 0.0), poisoned(*SIZE[:2], 0.0), z.cpu().numpy())


def test_batches_are_products_one_after_another(torch, library):
    layout, folder, sizes = library
    loaded = dispatch.load(folder)
    for (m, n, k), (alpha, beta) in cases(sizes):
        left, right = operands(layout, m, n, k)
        members = [np.float32(factor) * left for factor in (1.0, -2.0, 0.5)]
        a = torch.stack([moved(torch, x).T for x in members]).transpose(1, 2)
        b = moved(torch, right).unsqueeze(0).expand(3, -1, -1)  # one for all
        before = poisoned(m, n, beta)
        c = torch.zeros(3, n, -(-m // 4) * 4, device="cuda").transpose(1, 2)[:, :m]
        if any(step * 4 % 16 for step in (a.stride(0), c.stride(0))):
            with pytest.raises(UserError, match="not aligned"):
                loaded.gemm_batched(alpha, a, b, beta, c)
            continue
        c[...] = torch.from_numpy(before).cuda()
        loaded.gemm_batched(alpha, a, b, beta, c)
        torch.cuda.synchronize()
        for member, got in zip(members, c, strict=True):
            check(layout, member, right, (alpha, beta), before, got.cpu().numpy())


def test_what_cannot_be_computed_is_refused_and_nothing_is_launched(torch, loaded):
    (_, _), (x, y, z) = tensors(torch, 64, 64, 64)
    weights = torch.nn.Parameter(x.clone())
    for arguments, says in [
        ((1.0, x, y.cpu(), 0.0, z), "B is not on the GPU"),
        ((1.0, x, y.double(), 0.0, z), "B has the wrong element type"),
        ((1.0, x.contiguous(), y, 0.0, z), "A is not column-major"),
        ((1.0, x[:, :32], y, 0.0, z), "do not fit together"),
        ((1.0, x[1:], y, 0.0, z[:63]), "A is not aligned"),
        ((1.0, x, z, 0.0, z), "C shares elements with B"),
        ((1.0, weights, y, 0.0, z), "A requires a gradient"),
        ((torch.ones(2, device="cuda"), x, y, 0.0, z), "alpha is not one number"),
        ((torch.ones((), dtype=torch.float64, device="cuda"), x, y, 0.0, z), "alpha has the wrong element type"),
        ((torch.ones(()), x, y, 0.0, z), "alpha is not on the GPU"),
    ]:
        with pytest.raises(UserError, match=says):
            loaded.gemm(*arguments)
    torch.cuda.synchronize()
    assert bool(torch.isnan(z).all())
    with torch.no_grad():
        loaded.gemm(1.0, weights, y, 0.0, z)
    torch.cuda.synchronize()
    assert not bool(torch.isnan(z).any())
