// Row-major C = A B with 64 x 64 tiles, 4 x 4 a thread, fed by cp.async in three stages.
#include <cuda_pipeline.h>
#define BM 64
#define BN 64
#define BK 16
#define STAGES 3

__device__ void fetch(float *to, const float *from, bool inside) {
    __pipeline_memcpy_async(to, from, 4, inside ? 0 : 4);
}

__device__ void fetch_tile(float (*sa)[BK], float (*sb)[BN], const float *a, const float *b, int m, int n, int k,
                           int row0, int col0, int k0) {
    for (int i = threadIdx.x; i < BM * BK; i += 256) {
        int r = i / BK, c = i % BK;
        bool inside = row0 + r < m && k0 + c < k;
        fetch(&sa[r][c], inside ? a + (row0 + r) * k + k0 + c : a, inside);
    }
    for (int i = threadIdx.x; i < BK * BN; i += 256) {
        int r = i / BN, c = i % BN;
        bool inside = k0 + r < k && col0 + c < n;
        fetch(&sb[r][c], inside ? b + (k0 + r) * n + col0 + c : b, inside);
    }
}

extern "C" __global__ void sgemm(int m, int n, int k, const float *a, const float *b, float *c) {
    __shared__ __align__(16) float sa[STAGES][BM][BK];
    __shared__ __align__(16) float sb[STAGES][BK][BN];
    int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    int tr = threadIdx.x / 16, tc = threadIdx.x % 16;
    float acc[4][4] = {};
    int tiles = (k + BK - 1) / BK;
    for (int s = 0; s < STAGES - 1; ++s) {
        if (s < tiles) fetch_tile(sa[s], sb[s], a, b, m, n, k, row0, col0, s * BK);
        __pipeline_commit();
    }
    for (int t = 0; t < tiles; ++t) {
        __pipeline_wait_prior(STAGES - 2);
        __syncthreads();  // everyone's part of tile t is there, and tile t - 1 is read
        int ahead = t + STAGES - 1;
        if (ahead < tiles)
            fetch_tile(sa[ahead % STAGES], sb[ahead % STAGES], a, b, m, n, k, row0, col0, ahead * BK);
        __pipeline_commit();
        int s = t % STAGES;
        for (int i = 0; i < BK; ++i) {
            float fa[4], fb[4];
#pragma unroll
            for (int x = 0; x < 4; ++x) fa[x] = sa[s][tr * 4 + x][i];
#pragma unroll
            for (int x = 0; x < 4; ++x) fb[x] = sb[s][i][tc * 4 + x];
#pragma unroll
            for (int x = 0; x < 4; ++x)
#pragma unroll
                for (int y = 0; y < 4; ++y) acc[x][y] += fa[x] * fb[y];
        }
    }
    for (int x = 0; x < 4; ++x)
        for (int y = 0; y < 4; ++y) {
            int row = row0 + tr * 4 + x, col = col0 + tc * 4 + y;
            if (row < m && col < n) c[row * n + col] = acc[x][y];
        }
}
