#define TILE 16
__global__ void gemm(float *c, const float *a, const float *b, int m, int n, int k) {
    __shared__ float as[TILE][TILE], bs[TILE][TILE + 1];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
    float sum = 0;
    for (int step = 0; step < k; step += TILE) {
        as[y][x] = row < m && step + x < k ? a[row * k + step + x] : 0;
        bs[y][x] = column < n && step + y < k ? b[(step + y) * n + column] : 0;
        __syncthreads();
        for (int i = 0; i < TILE; ++i) sum += as[y][i] * bs[i][x];
        __syncthreads();
    }
    if (row < m && column < n) c[row * n + column] = sum;
}
