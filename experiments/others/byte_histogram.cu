// How often each byte occurs, with CUB: a block counts `rounds` tiles in shared memory, by atomics or by sorting.
#include <cub/block/block_histogram.cuh>
#include <cub/block/block_load.cuh>

__global__ void byte_histogram(unsigned *counts, const unsigned char *data)
{
    using Histogram = cub::BlockHistogram<unsigned char, threads, items, 256,
        by_sorting ? cub::BLOCK_HISTO_SORT : cub::BLOCK_HISTO_ATOMIC>;
    __shared__ typename Histogram::TempStorage room;
    __shared__ unsigned mine[256];
    Histogram(room).InitHistogram(mine);
    const unsigned char *tile = data + (size_t)blockIdx.x * rounds * threads * items;
    for (int k = 0; k < rounds; k++, tile += threads * items) {
        unsigned char some[items];
        cub::LoadDirectStriped<threads>(threadIdx.x, tile, some);
        __syncthreads();
        Histogram(room).Composite(some, mine);
    }
    __syncthreads();
    for (int b = threadIdx.x; b < 256; b += threads) atomicAdd(&counts[b], mine[b]);
}
