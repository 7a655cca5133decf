// A transposition by tiles; rows of the block walk over a tile, which may pass through shared memory.
struct __align__(4 * width) Numbers { float of[width]; };

__global__ void __launch_bounds__(tile / width * rows) transpose(float *out, const float *in, int nx, int ny)
{
#if order == 0
    const int bx = blockIdx.x, by = blockIdx.y;
#else  // along diagonals
    const int by = blockIdx.x % gridDim.y, bx = (blockIdx.x + blockIdx.y) % gridDim.x;
#endif
    const int i = threadIdx.x * width;
#if use_shared
    __shared__ float kept[tile][tile + padding];
#pragma unroll
    for (int j = threadIdx.y; j < tile; j += rows) {
        const Numbers row = *reinterpret_cast<const Numbers *>(in + (by * tile + j) * nx + bx * tile + i);
#pragma unroll
        for (int w = 0; w < width; w++) kept[j][i + w] = row.of[w];
    }
    __syncthreads();
#endif
#pragma unroll
    for (int j = threadIdx.y; j < tile; j += rows) {
        Numbers column;
#pragma unroll
        for (int w = 0; w < width; w++) {
#if use_shared
            column.of[w] = kept[i + w][j];
#else
            column.of[w] = in[(by * tile + i + w) * nx + bx * tile + j];
#endif
        }
        Numbers *to = reinterpret_cast<Numbers *>(out + (bx * tile + j) * ny + by * tile + i);
#if streaming
#pragma unroll
        for (int w = 0; w < width; w++) __stcs(&to->of[w], column.of[w]);
#else
        *to = column;
#endif
    }
}
