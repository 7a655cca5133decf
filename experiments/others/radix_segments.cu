// Sorts segments of `size` keys of 20 bits with CUB, `bits` bits of the keys a pass.
#include <cub/block/block_load.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_store.cuh>

__global__ void radix_segments(unsigned *keys)
{
    using Load = cub::BlockLoad<unsigned, threads, size / threads, cub::BLOCK_LOAD_TRANSPOSE>;
    using Sort = cub::BlockRadixSort<unsigned, threads, size / threads, cub::NullType, bits>;
    __shared__ union {
        typename Load::TempStorage load;
        typename Sort::TempStorage sort;
    } room;
    unsigned *segment = keys + (size_t)blockIdx.x * size, mine[size / threads];
    Load(room.load).Load(segment, mine);
    __syncthreads();
    Sort(room.sort).SortBlockedToStriped(mine, 0, 20);
    cub::StoreDirectStriped<threads>(threadIdx.x, segment, mine);
}
