// One step of a five-point stencil: a thread takes points_x * points_y points, a block's points lie in a rectangle.
__device__ __forceinline__ float load(const float *from)
{
#if read_only
    return __ldg(from);
#else
    return *from;
#endif
}

__device__ __forceinline__ void store(float *to, float value)
{
#if streaming
    __stcs(to, value);
#else
    *to = value;
#endif
}

__global__ void __launch_bounds__(block_x * block_y) stencil(float *next, const float *now, int nx, int ny, float c)
{
    const int x0 = blockIdx.x * block_x * points_x, y0 = blockIdx.y * block_y * points_y;
#if use_shared
    __shared__ float tile[block_y * points_y + 2][block_x * points_x + 2];
    for (int j = threadIdx.y; j < block_y * points_y + 2; j += block_y)
        for (int i = threadIdx.x; i < block_x * points_x + 2; i += block_x) {
            int x = x0 + i - 1, y = y0 + j - 1;
            tile[j][i] = x >= 0 && x < nx && y >= 0 && y < ny ? load(now + y * nx + x) : 0.0f;
        }
    __syncthreads();
#define AT(dx, dy) tile[j + 1 + (dy)][i + 1 + (dx)]
#else
#define AT(dx, dy) load(now + (y + (dy)) * nx + x + (dx))
#endif
#pragma unroll
    for (int q = 0; q < points_y; q++) {
        const int j = threadIdx.y + q * block_y, y = y0 + j;
#pragma unroll
        for (int p = 0; p < points_x; p++) {
            const int i = threadIdx.x + p * block_x, x = x0 + i;
            if (x >= nx || y >= ny) continue;
            const bool inner = x > 0 && x < nx - 1 && y > 0 && y < ny - 1;
            const float here = AT(0, 0);
            store(next + y * nx + x, inner ? here + c * (AT(-1, 0) + AT(1, 0) + AT(0, -1) + AT(0, 1) - 4.0f * here) : here);
        }
    }
}
