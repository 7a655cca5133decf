#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

__global__ void __launch_bounds__(32 * WARPS, 2)
half_gemm(__half const *__restrict__ A, __half const *__restrict__ B, float *__restrict__ C,
          int M, int N, int K, float alpha = 1.0f)
{
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    int warp = threadIdx.x / 32;
    int row = blockIdx.y * 16, column = (blockIdx.x * WARPS + warp) * 16;
    if (row >= M || column >= N) return;
    wmma::fill_fragment(c, 0.0f);
    #pragma unroll UNROLL
    for (int k = 0; k < K; k += 16) {
        wmma::load_matrix_sync(a, A + row * K + k, K);
        wmma::load_matrix_sync(b, B + k * N + column, N);
        wmma::mma_sync(c, a, b, c);
    }
    for (int i = 0; i < c.num_elements; ++i) c.x[i] *= alpha;
    wmma::store_matrix_sync(C + row * N + column, c, N, wmma::mem_row_major);
}
