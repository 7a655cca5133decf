// Sorts segments of threads * items keys, each within a block, by CUB.
#include <cub/block/block_radix_sort.cuh>

__global__ void block_radix(unsigned *keys)
{
    using Sort = cub::BlockRadixSort<unsigned, threads, items, cub::NullType, bits>;
    __shared__ typename Sort::TempStorage held;
    unsigned mine[items];
    unsigned *first = keys + (size_t)blockIdx.x * threads * items + threadIdx.x;
#pragma unroll
    for (int i = 0; i < items; i++) mine[i] = first[i * threads];
    Sort(held).SortBlockedToStriped(mine);
#pragma unroll
    for (int i = 0; i < items; i++) first[i * threads] = mine[i];
}
