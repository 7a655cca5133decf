// A convolution with 9 x 9 weights; each thread makes tile_x x tile_y pixels, block_x and block_y apart.
#define RADIUS 4
#define SIZE (2 * RADIUS + 1)

__global__ void __launch_bounds__(block_x * block_y)
convolution(float *out, const float *in, const float *weights, int width, int height)
{
    const int pitch = width + 2 * RADIUS;
    const int x0 = blockIdx.x * block_x * tile_x, y0 = blockIdx.y * block_y * tile_y;
    float sums[tile_y][tile_x] = {};
#if use_shared
    __shared__ float kept[block_y * tile_y + 2 * RADIUS][block_x * tile_x + 2 * RADIUS + padding];
    for (int j = threadIdx.y; j < block_y * tile_y + 2 * RADIUS; j += block_y)
        for (int i = threadIdx.x; i < block_x * tile_x + 2 * RADIUS; i += block_x)
            kept[j][i] = x0 + i < pitch && y0 + j < height + 2 * RADIUS ? in[(y0 + j) * pitch + x0 + i] : 0.0f;
    __syncthreads();
#endif
#if unrolled
#pragma unroll
#else
#pragma unroll 1
#endif
    for (int j = 0; j < SIZE; j++) {
#pragma unroll
        for (int i = 0; i < SIZE; i++) {
            const float weight = __ldg(weights + j * SIZE + i);
#pragma unroll
            for (int b = 0; b < tile_y; b++) {
#pragma unroll
                for (int a = 0; a < tile_x; a++) {
                    const int x = threadIdx.x + a * block_x, y = threadIdx.y + b * block_y;
#if use_shared
                    sums[b][a] += weight * kept[y + j][x + i];
#else
                    const int column = min(x0 + x, width - 1) + i, row = min(y0 + y, height - 1) + j;
                    sums[b][a] += weight * in[row * pitch + column];
#endif
                }
            }
        }
    }
#pragma unroll
    for (int b = 0; b < tile_y; b++) {
#pragma unroll
        for (int a = 0; a < tile_x; a++) {
            const int x = x0 + threadIdx.x + a * block_x, y = y0 + threadIdx.y + b * block_y;
            if (x < width && y < height) out[y * width + x] = sums[b][a];
        }
    }
}
