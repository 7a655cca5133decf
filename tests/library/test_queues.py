from __future__ import annotations

import pytest
from fake_cuda import NOT_PERMITTED, PRIMARY, FakeCuda
from library_support import ADDRESS, small_library

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
    with pytest.raises(UserError, match="the stream cannot be used"):
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
        with pytest.raises(UserError, match="still being written on another one"):
            queue.wait_for([other])


def test_a_captured_stream_is_the_one_that_its_handle_meant_last(contexts, cuda):
    loaded = contexts.current()
    known = loaded.queue(0x70)
    cuda.captured = {0x70, 0x80}
    assert loaded.queue(0x70) is known
    assert loaded.queue(0x80) is loaded.queue(0x80)
    assert cuda.called.count("cuStreamGetId") == 1
