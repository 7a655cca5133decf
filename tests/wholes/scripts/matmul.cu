// C = A B with tiles in shared memory; a thread has tile_size_y x tile_size_x elements of C.
#ifndef grid_width
#define grid_width WIDTH
#endif

extern "C" __global__ void matmul(float *C, const float *A, const float *B) {
    __shared__ float a[block_size_y * tile_size_y][block_size_x];
    __shared__ float b[block_size_x][block_size_x * tile_size_x];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int x = blockIdx.x * block_size_x * tile_size_x + tx;
    const int y = blockIdx.y * block_size_y * tile_size_y + ty;
    float sum[tile_size_y][tile_size_x] = {};

    for (int k = 0; k < WIDTH; k += block_size_x) {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < tile_size_y; i++)
            a[ty + block_size_y * i][tx] = A[(y + block_size_y * i) * WIDTH + k + tx];
        for (int row = ty; row < block_size_x; row += block_size_y)
#pragma unroll
            for (int j = 0; j < tile_size_x; j++)
                b[row][tx + block_size_x * j] = B[(k + row) * WIDTH + x + block_size_x * j];
        __syncthreads();
#pragma unroll
        for (int kb = 0; kb < block_size_x; kb++)
#pragma unroll
            for (int i = 0; i < tile_size_y; i++)
#pragma unroll
                for (int j = 0; j < tile_size_x; j++)
                    sum[i][j] += a[ty + block_size_y * i][kb] * b[kb][tx + block_size_x * j];
    }
    for (int i = 0; i < tile_size_y; i++)
        for (int j = 0; j < tile_size_x; j++)
            C[(y + block_size_y * i) * WIDTH + x + block_size_x * j] = sum[i][j];
}
