// Inclusive sums of segments of 4096 elements, each within a block, by CUB.
#include <cub/block/block_load.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_store.cuh>
#define ITEMS (4096 / threads)

__global__ void block_scan(float *out, const float *in)
{
    using Scan = cub::BlockScan<float, threads, (cub::BlockScanAlgorithm)algorithm>;
    using Load = cub::BlockLoad<float, threads, ITEMS, transposed ? cub::BLOCK_LOAD_TRANSPOSE : cub::BLOCK_LOAD_VECTORIZE>;
    using Store =
        cub::BlockStore<float, threads, ITEMS, transposed ? cub::BLOCK_STORE_TRANSPOSE : cub::BLOCK_STORE_VECTORIZE>;
    __shared__ union {
        typename Scan::TempStorage scan;
        typename Load::TempStorage load;
        typename Store::TempStorage store;
    } held;
    float mine[ITEMS];
    Load(held.load).Load(in + (size_t)blockIdx.x * 4096, mine);
    __syncthreads();
    Scan(held.scan).InclusiveSum(mine, mine);
    __syncthreads();
    Store(held.store).Store(out + (size_t)blockIdx.x * 4096, mine);
}
