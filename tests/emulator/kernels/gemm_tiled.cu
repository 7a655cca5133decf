// Row-major C = A B with 32 x 32 tiles in shared memory.
#define TILE 32

extern "C" __global__ void sgemm(int m, int n, int k, const float *a, const float *b, float *c) {
    __shared__ float tile_a[TILE][TILE];
    __shared__ float tile_b[TILE][TILE];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * TILE + ty, col = blockIdx.x * TILE + tx;
    float sum = 0.0f;
    for (int k0 = 0; k0 < k; k0 += TILE) {
        tile_a[ty][tx] = row < m && k0 + tx < k ? a[row * k + k0 + tx] : 0.0f;
        tile_b[ty][tx] = k0 + ty < k && col < n ? b[(k0 + ty) * n + col] : 0.0f;
        __syncthreads();  // tiles are filled
        for (int i = 0; i < TILE; ++i) sum += tile_a[ty][i] * tile_b[i][tx];
        __syncthreads();  // tiles are read
    }
    if (row < m && col < n) c[row * n + col] = sum;
}
