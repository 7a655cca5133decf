// Row-major C += A B; blocks along z take a slice of k each and add with atomics. C starts at zero.
extern "C" __global__ void sgemm(int m, int n, int k, int slice, const float *a, const float *b, float *c) {
    __shared__ float tile_a[16][17];
    __shared__ float tile_b[16][17];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
    int first = blockIdx.z * slice, last = min(k, first + slice);
    float sum = 0.0f;
    for (int k0 = first; k0 < last; k0 += 16) {
        tile_a[ty][tx] = row < m && k0 + tx < last ? a[row * k + k0 + tx] : 0.0f;
        tile_b[ty][tx] = k0 + ty < last && col < n ? b[(k0 + ty) * n + col] : 0.0f;
        __syncthreads();  // tiles are filled
        for (int i = 0; i < 16; ++i) sum += tile_a[ty][i] * tile_b[i][tx];
        __syncthreads();  // tiles are read
    }
    if (row < m && col < n) atomicAdd(c + row * n + col, sum);
}
