// Row-major C = A B. A block of 256 threads computes 128 x 128, a thread 8 x 8; k tile 8; two shared buffers.
#define BM 128
#define BN 128
#define BK 8

__device__ float4 load4(const float *base, int row, int col, int rows, int cols) {
    float4 v = make_float4(0.f, 0.f, 0.f, 0.f);
    if (row >= rows) return v;
    const float *p = base + (size_t)row * cols + col;
    if (col + 3 < cols && cols % 4 == 0) return *reinterpret_cast<const float4 *>(p);
    if (col < cols) v.x = p[0];
    if (col + 1 < cols) v.y = p[1];
    if (col + 2 < cols) v.z = p[2];
    if (col + 3 < cols) v.w = p[3];
    return v;
}

extern "C" __global__ void __launch_bounds__(256) sgemm(int m, int n, int k, const float *a, const float *b, float *c) {
    __shared__ __align__(16) float tile_a[2][BK][BM];  // transposed
    __shared__ __align__(16) float tile_b[2][BK][BN];
    int t = threadIdx.x;
    int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    int a_row = t / 2, a_col = (t % 2) * 4;
    int b_row = t / 32, b_col = (t % 32) * 4;
    int tr = (t / 16) * 4, tc = (t % 16) * 4;
    float acc[8][8] = {};
    float4 next_a = load4(a, row0 + a_row, a_col, m, k);
    float4 next_b = load4(b, b_row, col0 + b_col, k, n);
    int buffer = 0;
    tile_a[0][a_col + 0][a_row] = next_a.x;
    tile_a[0][a_col + 1][a_row] = next_a.y;
    tile_a[0][a_col + 2][a_row] = next_a.z;
    tile_a[0][a_col + 3][a_row] = next_a.w;
    *reinterpret_cast<float4 *>(&tile_b[0][b_row][b_col]) = next_b;
    __syncthreads();  // first tile is filled
    for (int k0 = 0; k0 < k; k0 += BK) {
        if (k0 + BK < k) {
            next_a = load4(a, row0 + a_row, k0 + BK + a_col, m, k);
            next_b = load4(b, k0 + BK + b_row, col0 + b_col, k, n);
        }
#pragma unroll
        for (int i = 0; i < BK; ++i) {
            float fa[8], fb[8];
            *reinterpret_cast<float4 *>(fa) = *reinterpret_cast<float4 *>(&tile_a[buffer][i][tr]);
            *reinterpret_cast<float4 *>(fa + 4) = *reinterpret_cast<float4 *>(&tile_a[buffer][i][tr + 64]);
            *reinterpret_cast<float4 *>(fb) = *reinterpret_cast<float4 *>(&tile_b[buffer][i][tc]);
            *reinterpret_cast<float4 *>(fb + 4) = *reinterpret_cast<float4 *>(&tile_b[buffer][i][tc + 64]);
#pragma unroll
            for (int x = 0; x < 8; ++x)
#pragma unroll
                for (int y = 0; y < 8; ++y) acc[x][y] += fa[x] * fb[y];
        }
        if (k0 + BK < k) {
            buffer ^= 1;
            tile_a[buffer][a_col + 0][a_row] = next_a.x;
            tile_a[buffer][a_col + 1][a_row] = next_a.y;
            tile_a[buffer][a_col + 2][a_row] = next_a.z;
            tile_a[buffer][a_col + 3][a_row] = next_a.w;
            *reinterpret_cast<float4 *>(&tile_b[buffer][b_row][b_col]) = next_b;
            __syncthreads();  // next tile is filled
        }
    }
#pragma unroll
    for (int x = 0; x < 8; ++x) {
        int row = row0 + tr + (x / 4) * 64 + x % 4;
#pragma unroll
        for (int y = 0; y < 8; ++y) {
            int col = col0 + tc + (y / 4) * 64 + y % 4;
            if (row < m && col < n) c[(size_t)row * n + col] = acc[x][y];
        }
    }
}
