"""The sum of two vectors, with a string for a source."""

import numpy as np
from kernel_tuner import tune_kernel

SOURCE = """
__global__ void vector_add(float *c, const float *a, const float *b, int n) {
    int i = blockIdx.x * block_size_x + threadIdx.x;
    if (i < n) {
        c[i] = a[i] + b[i];
    }
}
"""


def tune():
    size = 12_000
    a = np.random.randn(size).astype(np.float32)
    b = np.random.randn(size).astype(np.float32)
    c = np.zeros_like(b)
    n = np.int32(size)
    tune_params = {"block_size_x": [32 * i for i in (1, 2, 3, 4)]}
    return tune_kernel("vector_add", SOURCE, size, [c, a, b, n], tune_params, answer=[a + b, None, None, None])


if __name__ == "__main__":
    results, env = tune()
    assert [result["block_size_x"] for result in results] == [32, 64, 96, 128]
    assert min(results, key=lambda one: one["time"])["time"] > 0
    if all(result["verified"] for result in results):
        print("all configurations are verified,", env["time"])
