"""A sum in two steps: the number of blocks is a parameter, and the first step's answer depends on it."""

import numpy as np
from kernel_tuner import tune_kernel

SOURCE = """
template <typename T>
__device__ T warp_sum(T value) {
    for (int offset = 16; offset; offset /= 2) value += __shfl_down_sync(0xffffffff, value, offset);
    return value;
}

__global__ void sum_all(float *total, const float *x, int n) {
    __shared__ float partial[32];
    float sum = 0;
    for (int i = blockIdx.x * block_size_x + threadIdx.x; i < n; i += block_size_x * grid_size_x) sum += x[i];
#if use_shuffle
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = warp_sum(threadIdx.x < block_size_x / 32 ? partial[threadIdx.x] : 0.0f);
        if (threadIdx.x == 0) atomicAdd(total, sum);
    }
#else
    atomicAdd(total, sum);
#endif
}
"""


def tune():
    n = np.int32(20_000)
    x = np.random.rand(20_000).astype(np.float32)
    total = np.zeros(1, np.float32)
    tune_params = {"block_size_x": [64, 256], "use_shuffle": [0, 1], "num_blocks": [4, 8]}
    return tune_kernel(
        "sum_all",
        SOURCE,
        "num_blocks",
        [total, x, n],
        tune_params,
        grid_div_x=[],
        answer=[np.array([x.sum(dtype=np.float64)], np.float32), None, None],
        atol=1.0,
        quiet=False,
    )


if __name__ == "__main__":
    results, env = tune()
    assert len(results) == 8
    if all(result["verified"] for result in results):
        print("all configurations are verified")
