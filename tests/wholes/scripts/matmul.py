"""A product of matrices in a file, with tiles along both axes, restrictions, and GFLOP/s as a metric."""

from collections import OrderedDict

import numpy as np
from kernel_tuner import tune_kernel


def tune():
    width = 64
    A = np.random.randn(width, width).astype(np.float32)
    B = np.random.randn(width, width).astype(np.float32)
    C = np.zeros_like(A)

    tune_params = OrderedDict()
    tune_params["block_size_x"] = [16, 32]
    tune_params["block_size_y"] = [4, 16]
    tune_params["tile_size_x"] = [1, 2]
    tune_params["tile_size_y"] = [1, 2]
    tune_params["WIDTH"] = [width]

    metrics = OrderedDict()
    metrics["GFLOP/s"] = lambda p: (2 * width**3 / 1e9) / (p["time"] / 1e3)

    return tune_kernel(
        "matmul",
        "matmul.cu",
        (width, width),
        [C, A, B],
        tune_params,
        grid_div_x=["block_size_x", "tile_size_x"],
        grid_div_y=["block_size_y", "tile_size_y"],
        restrictions=[
            "block_size_x == block_size_y * tile_size_y or block_size_y == 4",
            "block_size_x * tile_size_x <= 64",
        ],
        answer=[A @ B, None, None],
        atol=1e-3,
        metrics=metrics,
    )


if __name__ == "__main__":
    results, env = tune()
    assert 0 < len(results) < 16
    assert all(result["GFLOP/s"] > 0 for result in results)
    assert not env["failed"]
    if all(result["verified"] for result in results):
        print("all configurations are verified")
