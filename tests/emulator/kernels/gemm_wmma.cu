// Row-major C = A B, half in, float out; one warp computes 16 x 16 through shared tiles of 16 x 16.
#include <mma.h>
using namespace nvcuda;

extern "C" __global__ void hgemm(int m, int n, int k, const __half *a, const __half *b, float *c) {
    __shared__ __align__(32) __half tile_a[16 * 16];
    __shared__ __align__(32) __half tile_b[16 * 16];
    __shared__ __align__(32) float tile_c[16 * 16];
    int row0 = blockIdx.y * 16, col0 = blockIdx.x * 16;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.0f);
    for (int k0 = 0; k0 < k; k0 += 16) {
        for (int i = threadIdx.x; i < 256; i += 32) {
            int r = i / 16, s = i % 16;
            tile_a[i] = row0 + r < m && k0 + s < k ? a[(row0 + r) * k + k0 + s] : __float2half(0.0f);
            tile_b[i] = k0 + r < k && col0 + s < n ? b[(k0 + r) * n + col0 + s] : __float2half(0.0f);
        }
        __syncwarp();  // tiles are filled
        wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> fb;
        wmma::load_matrix_sync(fa, tile_a, 16);
        wmma::load_matrix_sync(fb, tile_b, 16);
        wmma::mma_sync(acc, fa, fb, acc);
        __syncwarp();  // tiles are read
    }
    wmma::store_matrix_sync(tile_c, acc, 16, wmma::mem_row_major);
    __syncwarp();  // the result is there
    for (int i = threadIdx.x; i < 256; i += 32) {
        int r = i / 16, s = i % 16;
        if (row0 + r < m && col0 + s < n) c[(row0 + r) * n + col0 + s] = tile_c[i];
    }
}
