"""A three-dimensional kernel without an answer: a gradient's size in every cell of a volume."""

import numpy as np
from kernel_tuner import tune_kernel

SOURCE = """
extern "C" __global__ void gradient_size(double *out, const double *f, const int nx, const int ny, const int nz) {
    const int x = blockIdx.x * block_size_x + threadIdx.x;
    const int y = blockIdx.y * block_size_y + threadIdx.y;
    const int z = blockIdx.z * block_size_z + threadIdx.z;
    if (x >= nx || y >= ny || z >= nz) return;
    const long i = ((long)z * ny + y) * nx + x;
    const double dx = f[x + 1 < nx ? i + 1 : i] - f[i];
    const double dy = f[y + 1 < ny ? i + nx : i] - f[i];
    const double dz = f[z + 1 < nz ? i + (long)nx * ny : i] - f[i];
    out[i] = sqrt(dx * dx + dy * dy + dz * dz);
#ifndef kernel_tuner
    printf("only when it is built by hand");
#endif
}
"""


def tune():
    nx, ny, nz = 33, 17, 9
    f = np.random.randn(nz, ny, nx)
    out = np.zeros_like(f)
    arguments = [out, f, np.int32(nx), np.int32(ny), np.int32(nz)]
    tune_params = {"block_size_x": [16, 32], "block_size_y": [1, 4], "block_size_z": [1, 2]}
    return tune_kernel("gradient_size", SOURCE, (nx, ny, nz), arguments, tune_params, iterations=7)


if __name__ == "__main__":
    results, env = tune()
    assert len(results) == 8
    assert any("No reference is given" in note for note in env["notes"])
    if all(result["verified"] for result in results):
        print("all configurations are verified")
