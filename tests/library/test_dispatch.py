from __future__ import annotations

import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fake_cuda import PRIMARY, SCRATCH, SIGNATURES, FakeCuda, Memory
from library_support import ADDRESS, OnGpu, batched_library, fortran, small_library
from mistakes import coded
from narrowing import known

from lab.base.errors import UserError
from lab.library import calls, dispatch, queues
from lab.library.combine import combine_ptx
from lab.library.driver import FORKS, CudaDriver
from lab.library.emit import write
from lab.toolchain import locate

GCC = shutil.which("gcc")


@pytest.fixture
def folder(tmp_path):
    library = small_library()
    write(library, {kernel.name: kernel.name.encode() for kernel in library.kernels}, tmp_path)
    return tmp_path


def test_a_folder_or_its_json_is_loaded(folder):
    by_folder, by_file = opened(folder), opened(folder / "sgemm.json")
    assert by_folder.library == by_file.library == small_library()


def test_what_is_no_library_is_refused(tmp_path):
    with pytest.raises(UserError, check=coded("missing-file")):
        dispatch.load(tmp_path)
    with pytest.raises(UserError, check=coded("missing-file")):
        dispatch.load(tmp_path / "absent.json")


def test_select_remembers_and_agrees_with_the_logic(folder):
    loaded = opened(folder)
    logic = loaded.library.logic
    for _ in range(2):
        for size in [(16, 16, 64), (35, 700, 2560), (5000, 5000, 3104)]:
            assert loaded.select(*size) == logic.kernels[logic.select(*size)]
    with pytest.raises(UserError, check=coded("syntax", key="m", found=0)):
        loaded.select(0, 1, 1)


def test_what_is_remembered_is_bounded(monkeypatch):
    monkeypatch.setattr(dispatch, "_MOST_REMEMBERED", 4)
    picker = dispatch.Picker(small_library().logic)
    held = []
    for m in range(1, 8):
        picker.select(m, 1, 1)
        held.append(len(picker._picked))
    assert held == [1, 2, 3, 4, 1, 2, 3]


def opened(place):
    """The one library of a folder."""
    made = dispatch.load(place)
    assert isinstance(made, dispatch.Dispatcher)
    return made


def operands_of(shapes, *, stream=None):
    """Matrices at addresses of their own."""
    return [OnGpu(fortran(*s), address=ADDRESS * i, stream=stream) for i, s in enumerate(shapes, 1)]


SHAPES = [(300, 8), (8, 50), (300, 50)]
PARTIAL = 300 * 50 * 4 * 4
ROOM = -(-PARTIAL // 256) * 256 + 256
"""Bytes of the two scratch buffers of a product of these."""


def queued(stream=0, base=SCRATCH, at=(ADDRESS, 2 * ADDRESS, 3 * ADDRESS), factors=(2.0, 0.5)):
    """Return the operations a GEMM of `SHAPES` queues on a stream."""
    a, b, c = at
    values = (300, 50, 8, factors[0], a, 300, b, 8, factors[1], c, 300)
    return [
        ("memset", base, 0, PARTIAL, stream),
        ("part", (3, 17, 4), (256, 1, 1), 65536, stream, values),
        ("reduce", (300, 1, 1), (32, 1, 1), 0, stream, (base, c, 300)),
    ]


def without_setup(log):
    return [one for one in log if one[0] not in ("alloc", "shared")]


@pytest.fixture
def cuda(monkeypatch):
    fake = FakeCuda()
    monkeypatch.setattr(queues, "cuda_driver", lambda: CudaDriver(fake))
    return fake


def test_gemm_queues_the_launches_of_the_selected_kernel(folder, cuda):
    loaded = opened(folder)
    a, b, c = operands_of(SHAPES)
    for _ in range(2):
        loaded.gemm(2.0, a, b, 0.5, c)
    # a function asks for shared memory once
    assert cuda.log == [("shared", 65536), ("alloc", ROOM), *queued(), *queued()]
    assert cuda.loaded == [(PRIMARY, loaded.select(300, 50, 8).encode())]


def test_other_factors_and_other_places_reuse_the_plan(folder, cuda, monkeypatch):
    plans = []

    def counted(*given):
        plans.append(given)
        return calls.plan(*given)

    monkeypatch.setattr(dispatch, "plan", counted)
    loaded = opened(folder)
    a, b, c = operands_of(SHAPES)
    for factors in [(2.0, 0.5), (-1, np.float32(0.0)), (2.0, 0.5)]:
        cuda.log.clear()
        loaded.gemm(factors[0], a, b, factors[1], c)
        assert without_setup(cuda.log) == queued(factors=factors)
    cuda.log.clear()
    loaded.gemm(1.0, OnGpu(fortran(300, 8), address=9 * ADDRESS), b, 0.0, c)
    assert cuda.log == queued(at=(9 * ADDRESS, 2 * ADDRESS, 3 * ADDRESS), factors=(1.0, 0.0))
    assert len(plans) == 1


def test_a_factor_that_decides_launches_has_plans_of_its_own(tmp_path, cuda):
    library = small_library()
    kernels = tuple(
        replace(kernel, launches=(replace(kernel.launches[0], when="alpha != 0"), kernel.launches[1]))
        for kernel in library.kernels
    )
    library = replace(library, kernels=kernels)
    write(library, {kernel.name: b"code" for kernel in kernels}, tmp_path)
    loaded = opened(tmp_path)
    a, b, c = operands_of(SHAPES)
    for alpha, entries in [(1.0, ["part", "reduce"]), (0.0, ["reduce"]), (2.0, ["part", "reduce"])]:
        cuda.log.clear()
        loaded.gemm(alpha, a, b, 0.0, c)
        assert [one[0] for one in cuda.log if one[0] in SIGNATURES] == entries


def test_a_factor_must_be_a_number_or_lie_on_the_gpu(folder, cuda):
    loaded = opened(folder)
    a, b, c = operands_of(SHAPES)
    for factors, says in [
        ((np.ones(1, "f4"), 0.0), "alpha is not on the GPU"),
        ((1.0, "one"), "beta is not on the GPU"),
        ((OnGpu(np.ones(2, "f4"), address=8 * ADDRESS), 0.0), "alpha is not one number"),
        ((1.0, OnGpu(np.ones(1, "f8"), address=8 * ADDRESS)), "beta has the wrong element type"),
        ((OnGpu(np.ones(1, "f4"), address=8 * ADDRESS + 2), 0.0), "alpha is not aligned"),
        ((1.0, OnGpu(np.ones(1, "f4"), address=3 * ADDRESS + 60000 - 4)), "beta lies in C"),
        ((1e300, 0.0), "alpha is too large"),
    ]:
        with pytest.raises(UserError, match=says):
            loaded.gemm(factors[0], a, b, factors[1], c)
    factor = OnGpu(np.ones(1, "f4"), address=7 * ADDRESS + 256)
    with pytest.raises(UserError, check=coded("duplicate", key="alpha")):
        loaded.gemm(factor, a, b, 0.0, c, workspace=OnGpu(np.zeros(ON_GPU_ROOM, "u1"), address=7 * ADDRESS))
    cuda.memory[8 * ADDRESS] = Memory(1, PRIMARY + 1)
    with pytest.raises(UserError, check=coded("mismatch", key="alpha", found="GPU 1")):
        loaded.gemm(OnGpu(np.ones(1, "f4"), address=8 * ADDRESS), a, b, 0.0, c)
    assert without_setup(cuda.log) == []


ON_GPU_ROOM = ROOM + 300 * 50 * 4
"""Bytes of scratch and product of a call whose factors lie on the GPU."""


def combined(alpha, beta, *, stream=0, base=SCRATCH, at=(ADDRESS, 2 * ADDRESS, 3 * ADDRESS)):
    """Return the operations queued with factors on the GPU: the GEMM into scratch memory, then the combine kernel."""
    w = base + ROOM
    return [
        *queued(stream, base, (at[0], at[1], w), (1.0, 0.0)),
        ("combine", (59, 1, 1), (256, 1, 1), 0, stream, (300, 15000, 300, *alpha, w, *beta, at[2])),
    ]


def test_factors_on_the_gpu_are_read_there_and_nothing_waits(folder, cuda):
    loaded = opened(folder)
    a, b, c = operands_of(SHAPES)
    first_factor, other = OnGpu(np.ones(1, "f4"), address=8 * ADDRESS), OnGpu(np.ones((), "f4"), address=9 * ADDRESS)
    for alpha, beta, places in [
        (first_factor, other, ((8 * ADDRESS, 0.0), (9 * ADDRESS, 0.0))),
        (first_factor, 0.5, ((8 * ADDRESS, 0.0), (0, 0.5))),
        (np.float32(2.0), first_factor, ((0, 2.0), (8 * ADDRESS, 0.0))),
    ]:
        cuda.log.clear()
        loaded.gemm(alpha, a, b, beta, c)
        assert without_setup(cuda.log) == combined(*places)
        cuda.log.clear()
        loaded.gemm(2.0, a, b, 0.5, c)
        assert cuda.log == queued()
    waiting = OnGpu(np.ones(1, "f4"), address=8 * ADDRESS, stream=77)
    cuda.log.clear()
    loaded.gemm(waiting, a, b, 0.5, c)
    assert cuda.log == [("record", 77), ("wait", 0), *combined((8 * ADDRESS, 0.0), (0, 0.5))]


def test_a_prepared_call_with_factors_on_the_gpu_is_captured(folder, cuda):
    loaded = opened(folder)
    a, b, c = operands_of(SHAPES)
    factor = OnGpu(np.ones(1, "f4"), address=8 * ADDRESS)
    cuda.captured.add(0x80)
    loaded.prepare(300, 50, 8)
    with pytest.raises(UserError, check=coded("unsupported", key="stream")):
        loaded.gemm(factor, a, b, factor, c, stream=0x80)
    loaded.prepare(300, 50, 8, stream=0x70, on_gpu=True)
    cuda.captured.add(0x70)
    cuda.log.clear()
    loaded.gemm(factor, a, b, factor, c, stream=0x70)
    place = 8 * ADDRESS, 0.0
    assert cuda.log == combined(place, place, stream=0x70, base=2 * SCRATCH)
    assert loaded.workspace_bytes(300, 50, 8, on_gpu=True) == ON_GPU_ROOM
    cuda.log.clear()
    loaded.gemm(factor, a, b, factor, c, workspace=OnGpu(np.zeros(ON_GPU_ROOM, "u1"), address=7 * ADDRESS))
    assert cuda.log == combined(place, place, base=7 * ADDRESS)
    with pytest.raises(UserError, check=coded("out-of-range", key="workspace", found=300383)):
        loaded.gemm(factor, a, b, factor, c, workspace=OnGpu(np.zeros(ON_GPU_ROOM - 1, "u1"), address=7 * ADDRESS))


def test_a_batch_with_factors_on_the_gpu_shares_its_scratch(folder, cuda):
    loaded = opened(folder)
    a = batch_of(SHAPES[0], 3, 9600, address=ADDRESS)
    b = batch_of(SHAPES[1], 3, 0, address=2 * ADDRESS)
    c = batch_of(SHAPES[2], 3, 60000, address=3 * ADDRESS)
    loaded.gemm_batched(OnGpu(np.ones(1, "f4"), address=8 * ADDRESS), a, b, 0.5, c)
    at = [(ADDRESS + 9600 * i, 2 * ADDRESS, 3 * ADDRESS + 60000 * i) for i in range(3)]
    wanted = [one for places in at for one in combined((8 * ADDRESS, 0.0), (0, 0.5), at=places)]
    assert without_setup(cuda.log) == wanted


def test_no_context_is_left_behind(folder, cuda):
    loaded = opened(folder)
    a, b, c = operands_of(SHAPES)
    for stack in ([], [PRIMARY], []):
        cuda.stack[:] = stack
        loaded.gemm(1.0, a, b, 0.0, c)
        assert cuda.stack == stack
    assert len(cuda.loaded) == 1
    for file in folder.glob("*.cubin"):
        file.unlink()
    cuda.stack.clear()
    with pytest.raises(UserError, check=coded("missing-file", key="tile_16x16")):
        opened(folder).gemm(1.0, a, b, 0.0, c)
    assert cuda.stack == []


def test_without_a_current_context_that_of_the_memory_is_used(folder, cuda):
    loaded = opened(folder)
    cuda.stack.clear()
    a, b, c = operands_of(SHAPES)
    for memory, context in [
        (Memory(1, PRIMARY + 1), PRIMARY + 1),
        (Memory(1, 0), PRIMARY + 1),
        (Memory(0, 0x20), 0x20),
    ]:
        cuda.memory_default = memory
        loaded.gemm(1.0, a, b, 0.0, c)
        assert cuda.loaded[-1][0] == context
        assert cuda.stack == []


def test_every_context_gets_modules_and_scratch_of_its_own(folder, cuda):
    loaded = opened(folder)
    a, b, c = operands_of(SHAPES)
    for _ in range(2):
        for gpu in (0, 1):
            cuda.stack[:] = [PRIMARY + gpu]
            cuda.memory_default = Memory(gpu, PRIMARY + gpu)
            cuda.log.clear()
            loaded.gemm(2.0, a, b, 0.5, c)
            assert without_setup(cuda.log) == queued(base=SCRATCH * (1 + gpu))
    assert [context for context, _ in cuda.loaded] == [PRIMARY, PRIMARY + 1]
    cuda.identities[PRIMARY] = 77  # another context, made where one was that is gone
    cuda.stack[:] = [PRIMARY]
    cuda.memory_default = Memory()
    loaded.gemm(2.0, a, b, 0.5, c)
    assert [context for context, _ in cuda.loaded] == [PRIMARY, PRIMARY + 1, PRIMARY]


@pytest.mark.parametrize(
    ("memory", "says"),
    [
        (Memory(1, PRIMARY + 1), "B lies on another GPU"),
        (Memory(0, 0x20, reachable=False), "B belongs to another context"),
        (Memory(0, 0x20), "B belongs to another context"),  # for which the driver gives a pointer all the same
        (None, "B is not memory that CUDA knows"),
    ],
)
def test_memory_that_the_current_context_does_not_reach_is_refused(folder, cuda, memory, says):
    loaded = opened(folder)
    a, b, c = operands_of(SHAPES)
    cuda.memory[2 * ADDRESS] = memory
    with pytest.raises(UserError, match=says) as caught:
        loaded.gemm(1.0, a, b, 0.0, c)
    assert caught.value.key == "B"
    assert cuda.log == []


def test_streams_have_scratch_of_their_own(folder, cuda):
    loaded = opened(folder)
    a, b, c = operands_of(SHAPES)
    for _ in range(2):
        for i, stream in enumerate([None, 0x70, 0x80]):
            cuda.log.clear()
            loaded.gemm(2.0, a, b, 0.5, c, stream=stream)
            assert without_setup(cuda.log) == queued(stream or 0, SCRATCH * (1 + i))
    assert len(cuda.loaded) == 1


def test_a_larger_product_gets_a_larger_workspace(folder, cuda):
    loaded = opened(folder)
    loaded.gemm(2.0, *operands_of(SHAPES)[:2], 0.5, operands_of(SHAPES)[2])
    a, b, c = operands_of([(301, 8), (8, 50), (301, 50)])
    loaded.gemm(2.0, a, b, 0.5, c)
    assert [size for name, size, *_ in cuda.log if name == "alloc"] == [ROOM, 2 * ROOM]


def test_contents_of_another_stream_are_waited_for_on_the_stream(folder, cuda):
    loaded = opened(folder)
    c = operands_of(SHAPES)[2]
    for made_on, stream, waits in [
        (None, None, []),
        (1, None, []),  # the default stream
        (77, 77, []),
        (77, None, [("record", 77), ("wait", 0)]),
        (1, 77, [("record", 1), ("wait", 77)]),
    ]:
        a, b, _ = operands_of(SHAPES, stream=made_on)
        cuda.log.clear()
        loaded.gemm(2.0, a, b, 0.5, c, stream=stream)
        assert [one for one in cuda.log if one[0] in ("record", "wait")] == waits
        assert without_setup(cuda.log)[: len(waits)] == waits


def test_a_prepared_call_only_queues(folder, cuda):
    loaded = opened(folder)
    a, b, c = operands_of(SHAPES)
    loaded.prepare(300, 50, 8, stream=0x70)
    cuda.captured.add(0x70)
    cuda.log.clear()
    cuda.called.clear()
    loaded.gemm(2.0, a, b, 0.5, c, stream=0x70)
    assert cuda.log == queued(0x70)
    assert set(cuda.called) <= {
        "cuCtxGetId", "cuStreamIsCapturing", "cuPointerGetAttribute", "cuMemsetD8Async", "cuLaunchKernelEx",
    }  # fmt: skip


def test_what_was_not_prepared_is_refused_while_its_stream_is_captured(folder, cuda):
    loaded = opened(folder)
    a, b, c = operands_of(SHAPES)
    cuda.captured.add(0x70)
    with pytest.raises(UserError, check=coded("unsupported", key="stream")):
        loaded.gemm(2.0, a, b, 0.5, c, stream=0x70)
    loaded.prepare(300, 50, 8, stream=0x80, scratch=False)
    with pytest.raises(UserError, check=coded("unsupported", key="stream")):
        loaded.gemm(2.0, a, b, 0.5, c, stream=0x70)
    with pytest.raises(UserError, check=coded("unsupported", key="stream", found="0x1")):
        loaded.gemm(2.0, *operands_of(SHAPES, stream=1)[:2], 0.5, c, stream=0x70)
    assert without_setup(cuda.log) == []
    assert cuda.log == [("shared", 65536)]


def test_a_workspace_of_the_caller_is_used_as_it_is(folder, cuda):
    loaded = opened(folder)
    a, b, c = operands_of(SHAPES)
    assert loaded.workspace_bytes(300, 50, 8) == ROOM
    cuda.log.clear()
    loaded.gemm(2.0, a, b, 0.5, c, workspace=OnGpu(np.zeros(ROOM, "u1"), address=7 * ADDRESS))
    assert cuda.log == [("shared", 65536), *queued(base=7 * ADDRESS)]
    for workspace, says in [
        (OnGpu(np.zeros(ROOM - 1, "u1"), address=7 * ADDRESS), "too small"),
        (OnGpu(np.zeros(ROOM, "u1"), address=7 * ADDRESS + 16), "not aligned"),
        (OnGpu(np.zeros(ROOM, "u1"), address=3 * ADDRESS - 256), "lies in C"),
        (OnGpu(np.zeros(ROOM, "f4"), address=7 * ADDRESS), "wrong element type"),
        (OnGpu(np.zeros((2, ROOM), "u1"), address=7 * ADDRESS), "not a row of bytes"),
        (OnGpu(np.zeros(ROOM, "u1"), address=7 * ADDRESS, read_only=True), "not a row of bytes"),
        (np.zeros(ROOM, "u1"), "workspace is not on the GPU"),
    ]:
        cuda.log.clear()
        with pytest.raises(UserError, match=says):
            loaded.gemm(2.0, a, b, 0.5, c, workspace=workspace)
        assert cuda.log == []


def test_a_gpu_without_room_says_what_to_do(folder, cuda):
    cuda.room = 100
    a, b, c = operands_of(SHAPES)
    with pytest.raises(UserError, check=coded("out-of-range", key="workspace", found=240384)):
        opened(folder).gemm(2.0, a, b, 0.5, c)
    assert without_setup(cuda.log) == []


def batch_of(shape, count, step, *, address):
    made = OnGpu(fortran(*shape), address=address)
    given = made.__cuda_array_interface__
    made.__cuda_array_interface__ = {
        **given, "shape": (count, *given["shape"]), "strides": (step, 4, 4 * shape[0])
    }  # fmt: skip
    return made


def test_a_batch_is_one_product_after_another(folder, cuda):
    loaded = opened(folder)
    a = batch_of(SHAPES[0], 3, 9600, address=ADDRESS)
    b = batch_of(SHAPES[1], 3, 0, address=2 * ADDRESS)
    c = batch_of(SHAPES[2], 3, 60000, address=3 * ADDRESS)
    loaded.gemm_batched(2.0, a, b, 0.5, c)
    at = [(ADDRESS + 9600 * i, 2 * ADDRESS, 3 * ADDRESS + 60000 * i) for i in range(3)]
    assert without_setup(cuda.log) == [one for places in at for one in queued(at=places)]
    with pytest.raises(UserError, check=coded("wrong-type", key="A", found=(3, 300, 8))):
        loaded.gemm(2.0, a, b, 0.5, c)
    with pytest.raises(UserError, check=coded("wrong-type", key="A", found=(300, 8))):
        loaded.gemm_batched(2.0, *operands_of(SHAPES)[:2], 0.5, c)


def test_threads_share_a_dispatcher(folder, cuda):
    loaded = opened(folder)
    sizes = [(300, 50, 8), (64, 64, 64), (7, 9, 4)]

    def work(number):
        cuda.stack[:] = [PRIMARY]
        for _ in range(40):
            for m, n, k in sizes:
                at = [(16 * number + i) * ADDRESS for i in range(3)]
                shapes = (m, k), (k, n), (m, n)
                a, b, c = (OnGpu(fortran(*s), address=x) for s, x in zip(shapes, at, strict=True))
                loaded.gemm(float(number), a, b, 0.0, c, stream=0x70 * (number % 2))

    with ThreadPoolExecutor(6) as pool:
        for done in [pool.submit(work, i) for i in range(1, 7)]:
            done.result()
    for stream in (0, 0x70):
        log = [one for one in cuda.log if one[0] in SIGNATURES and one[4] == stream]
        assert len(log) == 2 * 3 * 40 * 3
        for first, second in zip(log[::2], log[1::2], strict=True):  # no call came between the launches of another
            assert (first[0], second[0]) == ("part", "reduce")
            values = first[5]
            number = int(values[3])
            assert [values[4], values[6], values[9]] == [(16 * number + i) * ADDRESS for i in range(3)]
            assert second[5][1] == values[9]
    assert len(cuda.loaded) == len({loaded.select(*size) for size in sizes})


def test_a_missing_cubin_is_named_when_it_is_needed(folder, cuda):
    for file in folder.glob("*.cubin"):
        file.unlink()
    loaded = opened(folder)
    assert loaded.select(3, 4, 5) == loaded.library.logic.kernels[loaded.library.logic.select(3, 4, 5)]
    a, b, c = operands_of([(3, 5), (5, 4), (3, 4)])
    with pytest.raises(UserError, check=coded("missing-file", key="tile_16x16")):
        loaded.gemm(1.0, a, b, 0.0, c)


def test_no_file_is_read_after_a_library_is_loaded(folder, cuda):
    loaded = opened(folder)
    for file in folder.iterdir():
        file.unlink()
    a, b, c = operands_of(SHAPES)
    loaded.gemm(1.0, a, b, 0.0, c)
    assert cuda.loaded == [(PRIMARY, loaded.select(300, 50, 8).encode())]


def test_a_forked_process_is_told_to_load_the_library_itself(folder, cuda, monkeypatch):
    loaded = opened(folder)
    a, b, c = operands_of(SHAPES)
    loaded.gemm(1.0, a, b, 0.0, c)
    before = list(cuda.log)
    monkeypatch.setattr(queues, "FORKS", [FORKS[0] + 1])
    with pytest.raises(UserError, match="forked after the library's first call"):
        loaded.gemm(1.0, a, b, 0.0, c)
    assert cuda.log == before
    opened(folder).gemm(1.0, a, b, 0.0, c)


def test_an_operand_that_c_overlaps_is_refused_before_anything_is_launched(folder, cuda):
    loaded = opened(folder)
    a, b, _ = operands_of([(8, 8), (8, 8), (8, 8)])
    with pytest.raises(UserError, check=coded("out-of-range", key="C", found="B at 0x200000, C at 0x200000")):
        loaded.gemm(1.0, a, b, 0.0, b)
    assert cuda.log == []


def test_a_misaligned_matrix_is_refused(folder, cuda):
    a, b, _ = operands_of(SHAPES)
    with pytest.raises(UserError, check=coded("mismatch", key="C", found="0x300004")):
        opened(folder).gemm(1.0, a, b, 0.0, OnGpu(fortran(300, 50), address=3 * ADDRESS + 4))
    assert cuda.log == []


@pytest.mark.parametrize("layout", ["nn", "tn"])
def test_libraries_of_several_layouts_are_one(tmp_path, cuda, layout):
    for letters in ("nn", "tn"):
        library = replace(small_library(), layout=letters)
        write(library, {kernel.name: letters.encode() for kernel in library.kernels}, tmp_path / letters)
    loaded = dispatch.load(tmp_path)
    assert isinstance(loaded, dispatch.LayoutDispatcher)
    shapes = [SHAPES[0] if layout == "nn" else SHAPES[0][::-1], *SHAPES[1:]]
    a, b, c = operands_of(shapes)
    loaded.prepare(300, 50, 8, layout=layout)
    loaded.gemm(1.0, a, b, 0.0, c, layout=layout, workspace=OnGpu(np.zeros(ROOM, "u1"), address=7 * ADDRESS))
    assert cuda.loaded == [(PRIMARY, layout.encode())]
    assert loaded.workspace_bytes(300, 50, 8, layout=layout) == ROOM
    batches = [batch_of(shape, 2, 1 << 17, address=ADDRESS * i) for i, shape in enumerate(shapes, 1)]
    loaded.gemm_batched(1.0, batches[0], batches[1], 0.0, batches[2], layout=layout)
    with pytest.raises(UserError, check=coded("unknown-name", key="layout", found="tt")):
        loaded.gemm(1.0, a, b, 0.0, c, layout="tt")


STUBS = """
#include <stdio.h>
#include <string.h>
#include "sgemm.h"
static char symbols[999][32];
static int count;
CUresult cuModuleLoad(CUmodule *m, const char *path) { printf("load %s\\n", path); *m = (CUmodule)symbols; return 0; }
CUresult cuModuleLoadData(CUmodule *m, const void *ptx)
{ printf("compile %zu\\n", strlen(ptx)); *m = (CUmodule)symbols; return 0; }
CUresult cuModuleUnload(CUmodule m) { return m == NULL; }
CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name)
{ (void)m; snprintf(symbols[count], 32, "%s", name); *f = (CUfunction)symbols[count++]; return 0; }
CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute a, int v)
{ printf("allow %s %d\\n", (const char *)f, v); return a != 8; }
CUresult cuMemsetD8Async(CUdeviceptr at, unsigned char v, size_t n, CUstream s)
{ (void)s; printf("memset %llu %d %zu\\n", at, v, n); return 0; }
CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, CUstream s, void **a, void **extra)
{
    (void)s; (void)extra;
    printf("%s %u %u %u %u %u %u %u", (const char *)f, gx, gy, gz, bx, by, bz, shared);
    if (((const char *)f)[0] == 'c')
        printf(" %u %u %u %llu %llu %llu %llu\\n", *(unsigned *)a[0], *(unsigned *)a[1], *(unsigned *)a[2],
               *(CUdeviceptr *)a[3], *(CUdeviceptr *)a[5], *(CUdeviceptr *)a[6], *(CUdeviceptr *)a[8]);
    else if (((const char *)f)[0] == 'p')
        printf(" %d %d %d %g %llu %d %llu %d %g %llu %d\\n", *(int *)a[0], *(int *)a[1], *(int *)a[2], *(float *)a[3],
               *(CUdeviceptr *)a[4], *(int *)a[5], *(CUdeviceptr *)a[6], *(int *)a[7], *(float *)a[8],
               *(CUdeviceptr *)a[9], *(int *)a[10]);
    else
        printf(" %llu %llu %lld\\n", *(CUdeviceptr *)a[0], *(CUdeviceptr *)a[1], (long long)*(int64_t *)a[2]);
    return 0;
}
int main(void)
{
    sgemm_library *library = NULL;
    if (sgemm_open(&library, "here") != CUDA_SUCCESS) return 1;
    long long m, n, k, lda, ldb, ldc;
    const CUdeviceptr at = 1 << 20;
    while (scanf("%lld %lld %lld %lld %lld %lld", &m, &n, &k, &lda, &ldb, &ldc) == 6) {
        size_t bytes = 0;
        CUresult status = sgemm_workspace(m, n, k, 2.0f, lda, ldb, 0.5f, ldc, &bytes);
        printf("status %d %zu\\n", status, bytes);
        status = sgemm_gemm(library, m, n, k, 2.0f, at, lda, 2 * at, ldb, 0.5f, 3 * at, ldc, 1 << 30, bytes, NULL);
        printf("status %d\\n", status);
        status = sgemm_workspace_on_gpu(m, n, k, lda, ldb, ldc, &bytes);
        printf("status %d %zu\\n", status, status ? 0 : bytes);
        status = sgemm_gemm_on_gpu(library, m, n, k, 8 * at, at, lda, 2 * at, ldb, 9 * at, 3 * at, ldc, 1 << 30, bytes,
                                   NULL);
        printf("status %d\\n", status);
    }
    printf("half %d\\n", sgemm_gemm_on_gpu(library, 4, 4, 4, at + 2, at, 4, at, 4, at, at, 4, 1 << 30, 1 << 20, NULL));
    printf("no room %d\\n", sgemm_gemm_on_gpu(library, 4, 4, 4, at, at, 4, at, 4, at, at, 4, 1 << 30, 64, NULL));
    printf("misaligned %d\\n", sgemm_gemm(library, 4, 4, 4, 1, at + 4, 4, at, 4, 0, at, 4, 1 << 30, 1 << 20, NULL));
    printf("no room %d\\n", sgemm_gemm(library, 4, 4, 4, 1, at, 4, at, 4, 0, at, 4, 1 << 30, 1, NULL));
    sgemm_close(library);
    return 0;
}
"""


def as_printed(library, m, n, k, leading):
    """Return the stub driver's expected output for a size: factors on the host, then on the GPU."""
    plain = printed_product(library, m, n, k, (*leading, 2.0, 0.5), lambda _: 3 * ADDRESS, 0)
    product = printed_product(library, m, n, k, (*leading[:2], m, 1.0, 0.0), lambda room: (1 << 30) + room, 4 * m * n)
    w = (1 << 30) + int(product[0].split()[-1]) - 4 * m * n
    numbers = (-(-m * n // 256), 1, 1, 256, 1, 1, 0, m, m * n, leading[2], 8 * ADDRESS, w, 9 * ADDRESS, 3 * ADDRESS)
    return [*plain, "status 0", *product, f"combine {' '.join(map(str, numbers))}", "status 0"]


def printed_product(library, m, n, k, point, result, more):
    """The lines of a product at a point, with a result that lies behind its scratch, and more scratch than its own."""
    values = {
        "m": m,
        "n": n,
        "k": k,
        **dict(zip(("lda", "ldb", "ldc", "alpha", "beta"), point, strict=True)),
    }
    made = calls.plan(library, values)
    where = {"A": ADDRESS, "B": 2 * ADDRESS, "C": result(made.workspace_bytes)}
    where |= {b.name: (1 << 30) + b.offset for b in made.buffers}
    lines = [f"status 0 {made.workspace_bytes + more}"]
    lines += [f"memset {where[b.name]} 0 {b.bytes}" for b in made.buffers if b.zero]
    for step in made.steps:
        arguments = [where[v] if isinstance(v, str) else v for v in step.values]
        numbers = (*step.grid, *step.block, step.shared_bytes, *arguments)
        lines.append(f"{step.entry} {' '.join(f'{x:g}' if isinstance(x, float) else str(x) for x in numbers)}")
    return lines


@pytest.mark.skipif(GCC is None, reason="gcc compiles what is emitted")
def test_c_launches_what_python_launches(folder):
    library = small_library()
    (folder / "main.c").write_text(STUBS)
    headers = locate.headers()
    assert headers is not None
    sources = [folder / "main.c", folder / "sgemm.c"]
    flags: list[str | Path] = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-I", headers]
    subprocess.run([known(GCC), *flags, "-o", folder / "main", *sources], check=True)
    good = [
        (300, 50, 8, 300, 8, 304),
        (1, 1, 1, 1, 1, 1),
        (700, 35, 2560, 1024, 2560, 700),
        (5000, 9, 6, 5000, 6, 5001),
    ]
    bad = [(300, 50, 8, 299, 8, 300), (300, 50, 8, 300, 8, 299), (0, 1, 1, 1, 1, 1), (300, 50, 8, 300, 2**31, 300)]
    text = "\n".join(" ".join(map(str, line)) for line in [*good, *bad])
    run = subprocess.run([folder / "main"], input=text, capture_output=True, text=True, check=True)
    lines = run.stdout.splitlines()
    loads = [f"load here/{kernel.cubin}" for kernel in library.kernels]
    wanted = [line for m, n, k, *leading in good for line in as_printed(library, m, n, k, leading)]
    refused = ["status 1 0", "status 1"] * (2 * len(bad))
    compiled = f"compile {len(combine_ptx('float32'))}"
    allowed = ["allow part 65536"] * len(library.kernels)  # once, and not at every call
    ends = ["half 716", "no room 1", "misaligned 716", "no room 1"]
    assert lines == [*loads, *allowed, compiled, *wanted, *refused, *ends]


@pytest.fixture
def batches(tmp_path):
    library = batched_library()
    write(library, {kernel.name: kernel.name.encode() for kernel in library.kernels}, tmp_path)
    return tmp_path


def test_a_batch_is_one_launch_of_the_kernel_picked_for_it(batches, cuda):
    loaded = opened(batches)
    a = batch_of((5, 7), 3, 4 * 35, address=ADDRESS)  # behind one another, at no multiple of 16 bytes
    b = batch_of((7, 9), 3, 0, address=2 * ADDRESS)
    c = batch_of((5, 9), 3, 4 * 47, address=3 * ADDRESS)
    for _ in range(2):
        loaded.gemm_batched(2.0, a, b, 0.5, c)
    values = (5, 9, 7, 2.0, ADDRESS, 5, 2 * ADDRESS, 7, 0.5, 3 * ADDRESS, 5, 3, 35, 0, 47)
    assert cuda.log == [("strided", (3, 1, 1), (64, 1, 1), 0, 0, values)] * 2
    assert cuda.loaded == [(PRIMARY, b"few")]


def test_a_product_of_a_library_of_batches_is_a_batch_of_one(batches, cuda):
    loaded = opened(batches)
    a, b, c = operands_of([(20, 7), (7, 9), (20, 9)])
    loaded.gemm(2.0, a, b, 0.5, c)
    single_batch = [batch_of(shape, 1, 0, address=ADDRESS * i) for i, shape in enumerate([(20, 7), (7, 9), (20, 9)], 1)]
    loaded.gemm_batched(2.0, *single_batch[:2], 0.5, single_batch[2])
    values = (20, 9, 7, 2.0, ADDRESS, 20, 2 * ADDRESS, 7, 0.5, 3 * ADDRESS, 20, 1, 0, 0, 0)
    assert cuda.log == [("strided", (2, 1, 1), (64, 1, 1), 0, 0, values)] * 2


def test_the_number_of_products_and_their_strides_decide(batches, cuda):
    loaded = opened(batches)
    assert [loaded.select(4, 6, 8, batch) for batch in (1, 2, 3, 7, 8)] == ["many", "few", "many", "few", "many"]
    assert loaded.select(3, 6, 5, batch=9) == "few"  # whose members of A are 15 elements apart
    for step in (4 * 32, 4 * 33):
        a = batch_of((4, 8), 9, step, address=ADDRESS)
        b, c = (batch_of(shape, 9, 512, address=i * ADDRESS) for i, shape in ((2, (8, 6)), (3, (4, 6))))
        loaded.gemm_batched(1.0, a, b, 0.0, c)
    assert cuda.loaded == [(PRIMARY, b"many"), (PRIMARY, b"few")]
    # its scratch is that of all products
    assert without_setup(cuda.log)[0][:4] == ("memset", SCRATCH, 0, 4 * 4 * 6 * 9)
    assert loaded.workspace_bytes(4, 6, 8, batch=9) == -(-4 * 4 * 6 * 9 // 256) * 256
    assert loaded.workspace_bytes(4, 6, 8, batch=9, strides=(33, 48, 24)) == 0


def test_a_prepared_batch_is_only_queued(batches, cuda):
    loaded = opened(batches)
    shapes = [(4, 8), (8, 6), (4, 6)]
    operands = [batch_of(shape, 9, 4 * shape[0] * shape[1], address=i * ADDRESS) for i, shape in enumerate(shapes, 1)]
    loaded.prepare(4, 6, 8, batch=9)
    before = list(cuda.log)
    loaded.gemm_batched(1.0, *operands[:2], 0.0, operands[2])
    assert [one[0] for one in cuda.log[len(before) :]] == ["memset", "strided"]
    with pytest.raises(UserError, check=coded("out-of-range", key="A", found=2147483648)):
        loaded.prepare(4, 6, 8, batch=9, strides=(2**31, 48, 24))


def test_members_of_a_batch_begin_at_whole_elements(batches, cuda):
    loaded = opened(batches)
    b, c = batch_of((7, 9), 3, 0, address=2 * ADDRESS), batch_of((5, 9), 3, 180, address=3 * ADDRESS)
    with pytest.raises(UserError, check=coded("mismatch", key="A", found=142)) as raised:
        loaded.gemm_batched(1.0, batch_of((5, 7), 3, 142, address=ADDRESS), b, 0.0, c)
    assert raised.value.accepted == "a multiple of 4 bytes"
    with pytest.raises(UserError, check=coded("out-of-range", key="C", found="0 bytes from one to the next")):
        loaded.gemm_batched(1.0, batch_of((5, 7), 3, 140, address=ADDRESS), b, 0.0, batch_of((5, 9), 3, 0, address=1))
    assert cuda.log == []


def test_members_of_a_batch_are_launched_in_turn_where_a_factor_lies_on_the_gpu(batches, cuda):
    loaded = opened(batches)
    a, b, c = (
        batch_of(shape, 3, step, address=i * ADDRESS)
        for i, (shape, step) in enumerate([((5, 7), 140), ((7, 9), 0), ((5, 9), 180)], 1)
    )
    loaded.gemm_batched(OnGpu(np.ones(1, "f4"), address=8 * ADDRESS), a, b, 0.5, c)
    launches = [(one[0], one[5]) for one in without_setup(cuda.log)]
    products = [values for entry, values in launches if entry == "strided"]
    assert [(values[4], values[6], values[11:]) for values in products] == [
        (ADDRESS + 140 * i, 2 * ADDRESS, (1, 0, 0, 0)) for i in range(3)
    ]
    assert [values[8] for entry, values in launches if entry == "combine"] == [3 * ADDRESS + 180 * i for i in range(3)]


def test_a_library_of_single_products_picks_alike_for_every_batch(folder, cuda):
    loaded = opened(folder)
    assert loaded.select(35, 700, 2560, batch=7) == loaded.select(35, 700, 2560)
    assert loaded.workspace_bytes(300, 50, 8, batch=7) == ROOM


BATCH_MAIN = """
int main(void)
{
    sgemm_library *library = NULL;
    if (sgemm_open(&library, "here") != CUDA_SUCCESS) return 1;
    long long m, n, k, lda, ldb, ldc, batch, a, b, c;
    const CUdeviceptr at = 1 << 20;
    while (scanf("%lld %lld %lld %lld %lld %lld %lld %lld %lld %lld", &m, &n, &k, &lda, &ldb, &ldc, &batch, &a, &b,
                 &c) == 10) {
        size_t bytes = 0;
        CUresult status = sgemm_workspace_batched(m, n, k, batch, 2.0f, lda, a, ldb, b, 0.5f, ldc, c, &bytes);
        printf("status %d %zu\\n", status, bytes);
        status = sgemm_gemm_batched(library, m, n, k, batch, 2.0f, at, lda, a, 2 * at, ldb, b, 0.5f, 3 * at, ldc, c,
                                    1 << 30, bytes, NULL);
        printf("status %d\\n", status);
    }
    printf("one %d\\n", sgemm_gemm(library, 5, 9, 7, 2.0f, at, 5, 2 * at, 7, 0.5f, 3 * at, 5, 0, 0, NULL));
    sgemm_close(library);
    return 0;
}
"""


@pytest.mark.skipif(GCC is None, reason="gcc compiles what is emitted")
def test_c_launches_a_batch_as_python_does(batches):
    library = batched_library()
    stubs = STUBS[: STUBS.index("int main")].replace(
        "[0] == 'p')", "[0] == 's') {\n        printf(\" %d %d %d %d\", *(int *)a[11], *(int *)a[12], *(int *)a[13], "
        "*(int *)a[14]);\n    }\n    if (((const char *)f)[0] == 's')",
    )  # fmt: skip
    (batches / "main.c").write_text(stubs + BATCH_MAIN)
    headers = locate.headers()
    assert headers is not None
    flags: list[str | Path] = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-I", headers]
    sources = [batches / "main.c", batches / "sgemm.c"]
    subprocess.run([known(GCC), *flags, "-o", batches / "main", *sources], check=True)
    good = [
        (5, 9, 7, 5, 7, 5, 3, 35, 0, 45),
        (4, 6, 8, 4, 8, 4, 9, 32, 48, 24),
        (4, 6, 8, 4, 8, 4, 9, 33, -48, 24),
        (4, 6, 8, 5, 8, 4, 3, 40, 48, 24),
    ]
    bad = [(5, 9, 7, 5, 7, 5, 0, 35, 0, 45), (5, 9, 7, 5, 7, 5, 3, 2**31, 0, 45), (5, 9, 7, 4, 7, 5, 3, 35, 0, 45)]
    text = "\n".join(" ".join(map(str, line)) for line in [*good, *bad])
    run = subprocess.run([batches / "main"], input=text, capture_output=True, text=True, check=True)
    lines = [line for line in run.stdout.splitlines() if not line.startswith(("load", "compile", "allow"))]
    wanted = [line for point in good for line in (*printed_batch(library, point), "status 0")]
    refused = ["status 1 0", "status 1"] * len(bad)
    single_lines = printed_batch(library, (5, 9, 7, 5, 7, 5, 1, 0, 0, 0))[1:]
    assert lines == [*wanted, *refused, *single_lines, "one 0"]


def printed_batch(library, point):
    """Return the stub driver's expected output for a batch, by dispatch's own plan."""
    made = calls.plan(library, dict(zip((*library.sizes, "alpha", "beta"), (*point, 2.0, 0.5), strict=True)))
    where = {"A": ADDRESS, "B": 2 * ADDRESS, "C": 3 * ADDRESS}
    lines = [f"status 0 {made.workspace_bytes}", *(f"memset {1 << 30} 0 {buffer.bytes}" for buffer in made.buffers)]
    for step in made.steps:
        values = [where[v] if isinstance(v, str) else v for v in step.values]
        numbers = (*step.grid, *step.block, step.shared_bytes, *values[11:], *values[:11])
        lines.append(f"{step.entry} {' '.join(f'{x:g}' if isinstance(x, float) else str(x) for x in numbers)}")
    return lines
