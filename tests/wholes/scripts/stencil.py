"""A diffusion step in two dimensions on a large grid, with a smaller one for the CPU."""

import numpy as np
from kernel_tuner import tune_kernel

SOURCE = """
#define at(x, y) ((y) * nx + (x))

__global__ void diffuse(float *u_new, const float *u, int nx, int ny, float dt) {
    int x = blockIdx.x * block_size_x + threadIdx.x;
    for (int step = 0; step < tile_size_y; step++) {
        int y = (blockIdx.y * tile_size_y + step) * block_size_y + threadIdx.y;
        if (x > 0 && x < nx - 1 && y > 0 && y < ny - 1)
            u_new[at(x, y)] = u[at(x, y)] + dt * (u[at(x, y + 1)] + u[at(x, y - 1)] + u[at(x + 1, y)]
                + u[at(x - 1, y)] - 4.0f * u[at(x, y)]);
    }
}
"""


def problem(nx, ny):
    u = np.random.rand(ny, nx).astype(np.float32)
    new = u.copy()
    dt = np.float32(0.225)
    new[1:-1, 1:-1] += dt * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1])
    return {
        "problem_size": (nx, ny),
        "arguments": [u.copy(), u, np.int32(nx), np.int32(ny), dt],
        "answer": [new] + 4 * [None],
    }


def tune(**more):
    large = problem(1024, 768)
    tune_params = {"block_size_x": [16, 32], "block_size_y": [4, 8], "tile_size_y": [1, 2]}
    return tune_kernel(
        "diffuse", SOURCE, tune_params=tune_params, grid_div_y=["block_size_y", "tile_size_y"], **large, **more
    )


if __name__ == "__main__":
    results, env = tune(emulate=problem(70, 33))
    assert len(results) == 8
    if all(result["verified"] for result in results):
        print("all configurations are verified")
