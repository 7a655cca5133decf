"""A convolution in two dimensions: names of their own for block sizes, functions for divisors, dynamic shared memory."""

import numpy as np
from kernel_tuner import tune_kernel

SOURCE = r"""
extern __shared__ float tile[];

extern "C" __global__ void convolve(float *output, const float *input, const float *filter) {
    const int x0 = blockIdx.x * threads_x * per_thread, y0 = blockIdx.y * threads_y;
    const int row = threads_x * per_thread + filter_width - 1;
    for (int y = threadIdx.y; y < threads_y + filter_height - 1; y += threads_y)
        for (int x = threadIdx.x; x < row; x += threads_x)
            tile[y * row + x] = input[(y0 + y) * (image_width + filter_width - 1) + x0 + x];
    __syncthreads();
    #pragma unroll
    for (int t = 0; t < per_thread; t++) {
        float sum = 0;
        #pragma unroll loop_unroll_factor_filter
        for (int j = 0; j < filter_height; j++)
            for (int i = 0; i < filter_width; i++)
                sum += tile[(threadIdx.y + j) * row + threadIdx.x + t * threads_x + i] * filter[j * filter_width + i];
        output[(y0 + threadIdx.y) * image_width + x0 + threadIdx.x + t * threads_x] = sum;
    }
}
"""


def tune():
    width, height, fw, fh = 128, 32, 5, 3
    image = np.random.randn(height + fh - 1, width + fw - 1).astype(np.float32)
    weights = np.random.randn(fh, fw).astype(np.float32)
    output = np.zeros((height, width), np.float32)
    expected = sum(weights[j, i] * image[j : j + height, i : i + width] for j in range(fh) for i in range(fw))
    tune_params = {
        "threads_x": [16, 32],
        "threads_y": [2, 8],
        "per_thread": [1, 2],
        "loop_unroll_factor_filter": [0, 3],
        "filter_width": [fw],
        "filter_height": [fh],
        "image_width": [width],
    }
    return tune_kernel(
        "convolve",
        SOURCE,
        (width, height),
        [output, image, weights],
        tune_params,
        grid_div_x=lambda p: p["threads_x"] * p["per_thread"],
        grid_div_y=["threads_y"],
        block_size_names=["threads_x", "threads_y"],
        smem_args={"size": "4 * (threads_x * per_thread + filter_width - 1) * (threads_y + filter_height - 1)"},
        restrictions=lambda p: p["threads_x"] * p["threads_y"] >= 64,
        answer=[expected, None, None],
        atol=1e-4,
        compiler_options=["--use_fast_math"],
        strategy="random_sample",
        strategy_options={"max_fevals": 6},
    )


if __name__ == "__main__":
    results, env = tune()
    assert len(results) == 6
    assert all(result["threads_x"] * result["threads_y"] >= 64 for result in results)
    if all(result["verified"] for result in results):
        print("all configurations are verified")
