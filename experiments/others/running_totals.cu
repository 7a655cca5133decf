// Running totals of rows with CUB: a block scans its row tile by tile and carries the total from each to the next.
#include <cub/block/block_load.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_store.cuh>

__global__ void running_totals(int *out, const int *in, int length)
{
    using Load = cub::BlockLoad<int, threads, items, transposed ? cub::BLOCK_LOAD_TRANSPOSE : cub::BLOCK_LOAD_DIRECT>;
    using Store = cub::BlockStore<int, threads, items, transposed ? cub::BLOCK_STORE_TRANSPOSE : cub::BLOCK_STORE_DIRECT>;
    using Scan = cub::BlockScan<int, threads, by_warps ? cub::BLOCK_SCAN_WARP_SCANS : cub::BLOCK_SCAN_RAKING>;
    __shared__ union {
        typename Load::TempStorage load;
        typename Store::TempStorage store;
        typename Scan::TempStorage scan;
    } room;
    in += (size_t)blockIdx.x * length, out += (size_t)blockIdx.x * length;
    int carry = 0;
    for (int first = 0; first < length; first += threads * items) {
        int mine[items], total;
        Load(room.load).Load(in + first, mine, length - first, 0);
        __syncthreads();
        Scan(room.scan).InclusiveSum(mine, mine, total);
        __syncthreads();
        for (int k = 0; k < items; k++) mine[k] += carry;
        carry += total;
        Store(room.store).Store(out + first, mine, length - first);
        __syncthreads();
    }
}
