from __future__ import annotations

from dataclasses import replace

import pytest
from fake_cuda import NOT_PERMITTED, PRIMARY, SCRATCH, FakeCuda
from library_support import ADDRESS, mapped_library, small_library
from mistakes import coded

from lab.base.errors import UserError
from lab.library import queues
from lab.library.archive import StoredLibrary
from lab.library.calls import plan, sized_form
from lab.library.driver import CudaDriver, DriverError
from lab.library.package import FACTORS, SIZES
from lab.library.queues import Contexts

LIBRARY = small_library()
FORM = sized_form(300, 50, 8, None, LIBRARY)
AT = (ADDRESS, 2 * ADDRESS, 3 * ADDRESS)


@pytest.fixture
def cuda():
    return FakeCuda()


@pytest.fixture
def contexts(cuda, monkeypatch, tmp_path):
    monkeypatch.setattr(queues, "cuda_driver", lambda: CudaDriver(cuda))
    stored = StoredLibrary(LIBRARY, {kernel.cubin: b"code" for kernel in LIBRARY.kernels}, tmp_path)
    names = (*SIZES, *FACTORS)
    return Contexts(stored, lambda form, factors: plan(LIBRARY, dict(zip(names, (*form.point, *factors), strict=True))))


def test_a_context_is_entered_once(contexts, cuda):
    first = contexts.current()
    assert first is contexts.current()
    assert (first.ordinal, first.trusted) == (0, 0)
    cuda.stack[:] = [0x20]
    other = contexts.current()
    assert other is not first
    assert other.trusted == -1  # not a primary one
    cuda.stack.clear()
    assert contexts.current() is None


def test_without_memory_the_first_gpu_is_used(contexts, cuda):
    cuda.stack.clear()
    for _ in range(2):
        with contexts.pushed(None) as loaded:
            assert loaded.ordinal == 0
            assert cuda.stack == [PRIMARY]
    assert cuda.called.count("cuDevicePrimaryCtxRetain") == 2  # once to keep it, once to compare


def test_a_stream_has_one_queue_even_where_handles_are_used_again(contexts, cuda):
    loaded = contexts.current()
    assert loaded.queue(0) is loaded.queue(0)
    first = loaded.queue(0x70)
    assert first is loaded.queue(0x70)
    cuda.do_cuStreamGetId = lambda stream, at: cuda_id(at, 999)  # another stream at the same place
    assert loaded.queue(0x70) is not first


def cuda_id(at, number):
    from fake_cuda import put  # noqa: PLC0415

    put(at, number)
    return 0


def test_what_is_prepared_is_bounded(contexts, monkeypatch):
    monkeypatch.setattr(queues, "_MOST_PREPARED", 2)
    queue = contexts.current().queue(0)
    for m in range(1, 6):
        queue.prepare(sized_form(m, 4, 4, None, LIBRARY), (1.0, 0.0), scratch=True)
        assert len(queue._prepared) <= 2


def test_a_refused_launch_is_an_error_and_the_queue_goes_on(contexts, cuda):
    queue = contexts.current().queue(0)
    cuda.fails["cuLaunchKernelEx"] = NOT_PERMITTED
    with pytest.raises(DriverError, match="cuLaunchKernelEx returns 900"):
        queue.run(FORM, AT, (1.0, 0.0), None)
    cuda.fails["cuLaunchKernelEx"] = 400
    with pytest.raises(UserError, check=coded("unsupported", key="stream", found="0x0")):
        queue.run(FORM, AT, (1.0, 0.0), None)
    cuda.fails.clear()
    queue.run(FORM, AT, (1.0, 0.0), None)
    assert [one[0] for one in cuda.log][-2:] == ["part", "reduce"]


def test_an_event_is_made_once(contexts, cuda):
    queue = contexts.current().queue(0x70)
    queue.wait_for([5, 6])
    queue.wait_for([5])
    assert cuda.called.count("cuEventCreate") == 1
    assert [one for one in cuda.log if one[0] == "record"] == [("record", 5), ("record", 6), ("record", 5)]


def test_streams_of_one_capture_may_wait_for_each_other(contexts, cuda):
    queue = contexts.current().queue(0x70)
    cuda.captured = {0x70, 0x80}
    queue.wait_for([0x80])
    assert cuda.log == [("record", 0x80), ("wait", 0x70)]
    for other in (1, 0x90):
        with pytest.raises(UserError, check=coded("unsupported", key="stream")):
            queue.wait_for([other])


def test_a_captured_stream_is_the_one_that_its_handle_meant_last(contexts, cuda):
    loaded = contexts.current()
    known = loaded.queue(0x70)
    cuda.captured = {0x70, 0x80}
    assert loaded.queue(0x70) is known
    assert loaded.queue(0x80) is loaded.queue(0x80)
    assert cuda.called.count("cuStreamGetId") == 1


MAPPED = mapped_library()


@pytest.fixture
def mapped(cuda, monkeypatch, tmp_path):
    monkeypatch.setattr(queues, "cuda_driver", lambda: CudaDriver(cuda))
    stored = StoredLibrary(MAPPED, {kernel.cubin: b"code" for kernel in MAPPED.kernels}, tmp_path)
    names = (*SIZES, *FACTORS)
    return Contexts(stored, lambda form, factors: plan(MAPPED, dict(zip(names, (*form.point, *factors), strict=True))))


def launched(cuda):
    return [one for one in cuda.log if one[0] == "mapped"]


def test_maps_are_made_of_a_calls_operands_and_kept(mapped, cuda):
    queue = mapped.current().queue(0)
    form = sized_form(64, 20, 8, None, MAPPED)
    for pointers in (AT, AT, (4096, *AT[1:]), AT):
        queue.run(form, pointers, (1.0, 0.0), None)
    a, c = AT[0], AT[2]
    assert [one for one in cuda.log if one[0] == "encode"] == [("encode", a), ("encode", SCRATCH), ("encode", 4096)]
    _, grid, block, shared, _, (m, a_map, b_map, c_at) = launched(cuda)[0]
    assert (m, c_at, grid, block, shared) == (64, c, (4, 1, 1), (64, 2, 1), 65536)
    assert a_map == (7, a, 64, 8, 4 * 64, 32, 8, 0)  # type, address, extents, stride, box, swizzle
    assert b_map == (7, SCRATCH, 20, 8, 4 * 20, 16, 8, 2)
    assert [one[5][1][1] for one in launched(cuda)] == [a, a, 4096, a]


def test_a_grid_is_no_larger_than_what_the_gpu_holds(mapped, cuda):
    queue = mapped.current().queue(0)
    queue.run(sized_form(6400, 1600, 8, None, MAPPED), AT, (1.0, 0.0), None)
    assert launched(cuda)[0][1] == (2 * 132, 1, 1)
    assert ("occupancy", "mapped", 128, 65536) in cuda.log


def test_a_grid_of_clusters_is_what_the_gpu_holds_of_these(mapped, cuda):
    cuda.cluster, cuda.clusters = 4, 30
    queue = mapped.current().queue(0)
    queue.run(sized_form(6400, 1600, 8, None, MAPPED), AT, (1.0, 0.0), None)
    assert launched(cuda)[0][1] == (4 * 30, 1, 1)


def test_other_leading_dimensions_get_another_kernel(mapped, cuda):
    queue = mapped.current().queue(0)
    queue.run(sized_form(64, 20, 8, (65, 8, 64), MAPPED), AT, (1.0, 0.0), None)
    assert not launched(cuda)
    assert [one[0] for one in cuda.log if one[0] in ("part", "reduce")] == ["part", "reduce"]


def test_a_batch_has_a_map_for_each_member(mapped, cuda):
    queue = mapped.current().queue(0)
    form = replace(sized_form(64, 20, 8, None, MAPPED), count=3, steps=(4096, 0, 8192))
    queue.run(form, AT, (1.0, 0.0), None)
    assert [one[5][1][1] - AT[0] for one in launched(cuda)] == [0, 4096, 8192]


def test_a_call_that_was_made_before_can_be_captured_with_other_operands(mapped, cuda):
    queue = mapped.current().queue(0x70)
    form = sized_form(64, 20, 8, None, MAPPED)
    queue.run(form, AT, (1.0, 0.0), None)
    cuda.captured = {0x70}
    queue.run(form, (4096, *AT[1:]), (1.0, 0.0), None)
    assert launched(cuda)[-1][5][1][1] == 4096


def test_a_map_that_the_driver_refuses_is_an_error_and_the_queue_goes_on(mapped, cuda):
    queue = mapped.current().queue(0)
    form = sized_form(64, 20, 8, None, MAPPED)
    cuda.fails["cuTensorMapEncodeTiled"] = 1
    with pytest.raises(DriverError, match="cuTensorMapEncodeTiled returns 1"):
        queue.run(form, AT, (1.0, 0.0), None)
    cuda.fails.clear()
    queue.run(form, AT, (1.0, 0.0), None)
    assert len(launched(cuda)) == 1
