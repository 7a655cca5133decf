// Counts the bytes of segments of threads * items, each within a block, by CUB.
#include <cub/block/block_histogram.cuh>

__global__ void byte_counts(unsigned *counts, const unsigned char *bytes)
{
    using Count = cub::BlockHistogram<unsigned char, threads, items, 256, (cub::BlockHistogramAlgorithm)algorithm>;
    __shared__ typename Count::TempStorage held;
    __shared__ unsigned mine[256];
    unsigned char values[items];
    const unsigned char *first = bytes + ((size_t)blockIdx.x * threads + threadIdx.x) * items;
#pragma unroll
    for (int i = 0; i < items; i++) values[i] = first[i];
    Count(held).Histogram(values, mine);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += threads)
        if (mine[i]) atomicAdd(counts + i, mine[i]);
}
