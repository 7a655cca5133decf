// Divides each row by its root mean square and weighs its columns; the sum is CUB's.
#include <cub/block/block_reduce.cuh>

__global__ void rms_norm(float *out, const float *in, const float *weights, int length)
{
    using Sum = cub::BlockReduce<float, threads, (cub::BlockReduceAlgorithm)algorithm>;
    __shared__ typename Sum::TempStorage held;
    __shared__ float scale;
    const float *row = in + (size_t)blockIdx.x * length;
    float squares = 0;
    for (int i = threadIdx.x; i < length; i += threads) squares += row[i] * row[i];
    squares = Sum(held).Sum(squares);
    if (threadIdx.x == 0) scale = rsqrtf(squares / length + 1e-6f);
    __syncthreads();
    for (int i = threadIdx.x; i < length; i += threads)
        out[(size_t)blockIdx.x * length + i] = row[i] * scale * weights[i];
}
