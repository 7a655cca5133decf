// class: tails
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void add(float *c, const float *a, const float *b, int n) {
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    bool whole = warp.all(i < n);
    if (whole) c[i] = a[i] + b[i];
    else if (i < n) c[i] = a[n - 1] + b[n - 1];
}
