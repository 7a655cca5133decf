from compiling import compile_text

from lab.isa.ptx.gridsync import grid_sync_entries

SOURCE = """#include <cooperative_groups.h>
extern "C" __global__ void waits(float *x) {
    x[threadIdx.x] += 1; cooperative_groups::this_grid().sync(); x[threadIdx.x + 32] += x[blockIdx.x];
}
extern "C" __global__ void counts(int *x) { *x = cooperative_groups::this_grid().size(); }
extern "C" __global__ void meets(float *x) { cooperative_groups::this_thread_block().sync(); *x = 1; }
"""


def test_only_the_kernel_that_waits_for_the_grid_is_named():
    assert grid_sync_entries(compile_text(SOURCE)) == {"waits"}


def test_a_function_that_waits_may_be_called_by_every_kernel():
    body = "{{ .reg .b32 %r<3>; {} ret; }}"
    reads = body.format("mov.u32 %r1, %envreg2;")
    module = (
        f".visible .entry a(){body.format('')}\n.func (.param .b32 f) f(){reads}\n.visible .entry b(){body.format('')}"
    )
    assert grid_sync_entries(module) == {"a", "b"}
    assert grid_sync_entries(module.replace("%envreg2", "%laneid")) == frozenset()
