// Kernels that use CUB, cooperative groups and libcu++ as their manuals do: none has a fault. Each takes an input of
// 1,024 integers (or fewer) and an output of as many, and is launched with 4 blocks of 128 threads.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cooperative_groups/memcpy_async.h>
#include <cub/block/block_adjacent_difference.cuh>
#include <cub/block/block_discontinuity.cuh>
#include <cub/block/block_exchange.cuh>
#include <cub/block/block_histogram.cuh>
#include <cub/block/block_load.cuh>
#include <cub/block/block_merge_sort.cuh>
#include <cub/block/block_radix_rank.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_run_length_decode.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_shuffle.cuh>
#include <cub/block/block_store.cuh>
#include <cub/warp/warp_exchange.cuh>
#include <cub/warp/warp_load.cuh>
#include <cub/warp/warp_merge_sort.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>
#include <cub/warp/warp_store.cuh>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/pipeline>

namespace cg = cooperative_groups;

constexpr int THREADS = 128, ITEMS = 2, TILE = THREADS * ITEMS;

#define KERNEL(name) extern "C" __global__ void name(const int* in, int* out)
#define AT (blockIdx.x * THREADS + threadIdx.x)

template <cub::BlockReduceAlgorithm HOW> __device__ void reduce(const int* in, int* out) {
    using Reduce = cub::BlockReduce<int, THREADS, HOW>;
    __shared__ typename Reduce::TempStorage room;
    int sum = Reduce(room).Sum(in[AT]);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}
KERNEL(block_reduce_raking) { reduce<cub::BLOCK_REDUCE_RAKING>(in, out); }
KERNEL(block_reduce_commutative) { reduce<cub::BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY>(in, out); }
KERNEL(block_reduce_warps) { reduce<cub::BLOCK_REDUCE_WARP_REDUCTIONS>(in, out); }
KERNEL(block_reduce_partial) {
    using Reduce = cub::BlockReduce<int, THREADS>;
    __shared__ typename Reduce::TempStorage room;
    int sum = Reduce(room).Sum(in[AT], 77);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

template <cub::BlockScanAlgorithm HOW> __device__ void scan(const int* in, int* out) {
    using Scan = cub::BlockScan<int, THREADS, HOW>;
    __shared__ typename Scan::TempStorage room;
    int value = in[AT], total;
    Scan(room).ExclusiveSum(value, value, total);
    out[AT] = value + total;
}
KERNEL(block_scan_raking) { scan<cub::BLOCK_SCAN_RAKING>(in, out); }
KERNEL(block_scan_memoize) { scan<cub::BLOCK_SCAN_RAKING_MEMOIZE>(in, out); }
KERNEL(block_scan_warps) { scan<cub::BLOCK_SCAN_WARP_SCANS>(in, out); }

template <cub::BlockLoadAlgorithm LOAD, cub::BlockStoreAlgorithm STORE>
__device__ void copy(const int* in, int* out, int valid) {
    using Load = cub::BlockLoad<int, THREADS, ITEMS, LOAD>;
    using Store = cub::BlockStore<int, THREADS, ITEMS, STORE>;
    __shared__ union { typename Load::TempStorage load; typename Store::TempStorage store; } room;
    int items[ITEMS], base = blockIdx.x * TILE;
    if (valid == TILE) Load(room.load).Load(in + base, items); else Load(room.load).Load(in + base, items, valid);
    __syncthreads();
    if (valid == TILE) Store(room.store).Store(out + base, items); else Store(room.store).Store(out + base, items, valid);
}
KERNEL(load_direct) { copy<cub::BLOCK_LOAD_DIRECT, cub::BLOCK_STORE_DIRECT>(in, out, TILE); }
KERNEL(load_striped) { copy<cub::BLOCK_LOAD_STRIPED, cub::BLOCK_STORE_STRIPED>(in, out, TILE); }
KERNEL(load_vectorize) { copy<cub::BLOCK_LOAD_VECTORIZE, cub::BLOCK_STORE_VECTORIZE>(in, out, TILE); }
KERNEL(load_transpose) { copy<cub::BLOCK_LOAD_TRANSPOSE, cub::BLOCK_STORE_TRANSPOSE>(in, out, TILE); }
KERNEL(load_warp_transpose) { copy<cub::BLOCK_LOAD_WARP_TRANSPOSE, cub::BLOCK_STORE_WARP_TRANSPOSE>(in, out, TILE); }
KERNEL(load_guarded) { copy<cub::BLOCK_LOAD_DIRECT, cub::BLOCK_STORE_DIRECT>(in, out, 201); }
KERNEL(load_transpose_guarded) { copy<cub::BLOCK_LOAD_TRANSPOSE, cub::BLOCK_STORE_TRANSPOSE>(in, out, 201); }

KERNEL(radix_sort) {
    using Sort = cub::BlockRadixSort<int, THREADS, ITEMS>;
    __shared__ typename Sort::TempStorage room;
    int keys[ITEMS];
    for (int i = 0; i < ITEMS; ++i) keys[i] = in[blockIdx.x * TILE + threadIdx.x * ITEMS + i];
    Sort(room).Sort(keys);
    for (int i = 0; i < ITEMS; ++i) out[blockIdx.x * TILE + threadIdx.x * ITEMS + i] = keys[i];
}
KERNEL(radix_sort_pairs) {
    using Sort = cub::BlockRadixSort<int, THREADS, ITEMS, int>;
    __shared__ typename Sort::TempStorage room;
    int keys[ITEMS], values[ITEMS];
    for (int i = 0; i < ITEMS; ++i) keys[i] = in[blockIdx.x * TILE + threadIdx.x * ITEMS + i], values[i] = threadIdx.x;
    Sort(room).SortDescending(keys, values);
    for (int i = 0; i < ITEMS; ++i) out[blockIdx.x * TILE + threadIdx.x * ITEMS + i] = keys[i] + values[i];
}
struct Less { __device__ bool operator()(int a, int b) const { return a < b; } };
KERNEL(merge_sort) {
    using Sort = cub::BlockMergeSort<int, THREADS, ITEMS>;
    __shared__ typename Sort::TempStorage room;
    int keys[ITEMS];
    for (int i = 0; i < ITEMS; ++i) keys[i] = in[blockIdx.x * TILE + threadIdx.x * ITEMS + i];
    Sort(room).Sort(keys, Less());
    for (int i = 0; i < ITEMS; ++i) out[blockIdx.x * TILE + threadIdx.x * ITEMS + i] = keys[i];
}
KERNEL(warp_merge_sort) {
    using Sort = cub::WarpMergeSort<int, ITEMS, 32>;
    __shared__ typename Sort::TempStorage room[THREADS / 32];
    int keys[ITEMS];
    for (int i = 0; i < ITEMS; ++i) keys[i] = in[blockIdx.x * TILE + threadIdx.x * ITEMS + i];
    Sort(room[threadIdx.x / 32]).Sort(keys, Less());
    for (int i = 0; i < ITEMS; ++i) out[blockIdx.x * TILE + threadIdx.x * ITEMS + i] = keys[i];
}

template <cub::BlockHistogramAlgorithm HOW> __device__ void histogram(const int* in, int* out) {
    using Histogram = cub::BlockHistogram<unsigned char, THREADS, ITEMS, 64, HOW>;
    __shared__ typename Histogram::TempStorage room;
    __shared__ unsigned bins[64];
    unsigned char items[ITEMS];
    for (int i = 0; i < ITEMS; ++i) items[i] = in[blockIdx.x * TILE + threadIdx.x * ITEMS + i] & 63;
    Histogram(room).Histogram(items, bins);
    __syncthreads();
    if (threadIdx.x < 64) out[blockIdx.x * 64 + threadIdx.x] = bins[threadIdx.x];
}
KERNEL(histogram_atomic) { histogram<cub::BLOCK_HISTO_ATOMIC>(in, out); }
KERNEL(histogram_sort) { histogram<cub::BLOCK_HISTO_SORT>(in, out); }

KERNEL(exchange_striped) {
    using Exchange = cub::BlockExchange<int, THREADS, ITEMS>;
    __shared__ typename Exchange::TempStorage room;
    int items[ITEMS];
    for (int i = 0; i < ITEMS; ++i) items[i] = in[blockIdx.x * TILE + i * THREADS + threadIdx.x];
    Exchange(room).StripedToBlocked(items, items);
    for (int i = 0; i < ITEMS; ++i) out[blockIdx.x * TILE + threadIdx.x * ITEMS + i] = items[i];
}
KERNEL(exchange_scatter) {
    using Exchange = cub::BlockExchange<int, THREADS, ITEMS>;
    __shared__ typename Exchange::TempStorage room;
    int items[ITEMS], ranks[ITEMS];
    for (int i = 0; i < ITEMS; ++i) items[i] = in[blockIdx.x * TILE + threadIdx.x * ITEMS + i];
    for (int i = 0; i < ITEMS; ++i) ranks[i] = TILE - 1 - (threadIdx.x * ITEMS + i);
    Exchange(room).ScatterToBlocked(items, items, ranks);
    for (int i = 0; i < ITEMS; ++i) out[blockIdx.x * TILE + threadIdx.x * ITEMS + i] = items[i];
}
KERNEL(warp_exchange) {
    using Exchange = cub::WarpExchange<int, ITEMS, 32>;
    __shared__ typename Exchange::TempStorage room[THREADS / 32];
    int items[ITEMS];
    for (int i = 0; i < ITEMS; ++i) items[i] = in[blockIdx.x * TILE + threadIdx.x * ITEMS + i];
    Exchange(room[threadIdx.x / 32]).BlockedToStriped(items, items);
    for (int i = 0; i < ITEMS; ++i) out[blockIdx.x * TILE + threadIdx.x * ITEMS + i] = items[i];
}
KERNEL(adjacent_difference) {
    using Difference = cub::BlockAdjacentDifference<int, THREADS>;
    __shared__ typename Difference::TempStorage room;
    int items[ITEMS], made[ITEMS];
    for (int i = 0; i < ITEMS; ++i) items[i] = in[blockIdx.x * TILE + threadIdx.x * ITEMS + i];
    Difference(room).SubtractLeft(items, made, cuda::std::minus<int>());
    for (int i = 0; i < ITEMS; ++i) out[blockIdx.x * TILE + threadIdx.x * ITEMS + i] = made[i];
}
KERNEL(discontinuity) {
    using Edge = cub::BlockDiscontinuity<int, THREADS>;
    __shared__ typename Edge::TempStorage room;
    int items[ITEMS], heads[ITEMS];
    for (int i = 0; i < ITEMS; ++i) items[i] = in[blockIdx.x * TILE + threadIdx.x * ITEMS + i] & 3;
    Edge(room).FlagHeads(heads, items, cuda::std::not_equal_to<int>());
    for (int i = 0; i < ITEMS; ++i) out[blockIdx.x * TILE + threadIdx.x * ITEMS + i] = heads[i];
}
KERNEL(block_shuffle) {
    using Shuffle = cub::BlockShuffle<int, THREADS>;
    __shared__ typename Shuffle::TempStorage room;
    int value = in[AT], other = -1;
    Shuffle(room).Offset(value, other, 1);
    out[AT] = value + other;
}
KERNEL(warp_reduce) {
    using Reduce = cub::WarpReduce<int>;
    __shared__ typename Reduce::TempStorage room[THREADS / 32];
    int sum = Reduce(room[threadIdx.x / 32]).Sum(in[AT]);
    if (threadIdx.x % 32 == 0) out[AT / 32] = sum;
}
KERNEL(warp_reduce_partial) {
    using Reduce = cub::WarpReduce<int, 8>;
    __shared__ typename Reduce::TempStorage room[THREADS / 8];
    int sum = Reduce(room[threadIdx.x / 8]).Sum(in[AT], 5);
    if (threadIdx.x % 8 == 0) out[AT / 8] = sum;
}
KERNEL(warp_segmented) {
    using Reduce = cub::WarpReduce<int>;
    __shared__ typename Reduce::TempStorage room[THREADS / 32];
    int sum = Reduce(room[threadIdx.x / 32]).HeadSegmentedSum(in[AT], threadIdx.x % 5 == 0);
    if (threadIdx.x % 5 == 0) out[AT] = sum;
}
KERNEL(warp_scan) {
    using Scan = cub::WarpScan<int>;
    __shared__ typename Scan::TempStorage room[THREADS / 32];
    int value;
    Scan(room[threadIdx.x / 32]).InclusiveSum(in[AT], value);
    out[AT] = value;
}
KERNEL(warp_load) {
    using Load = cub::WarpLoad<int, ITEMS, cub::WARP_LOAD_TRANSPOSE>;
    using Store = cub::WarpStore<int, ITEMS, cub::WARP_STORE_TRANSPOSE>;
    __shared__ typename Load::TempStorage load[THREADS / 32];
    __shared__ typename Store::TempStorage store[THREADS / 32];
    int items[ITEMS], warp = threadIdx.x / 32, base = blockIdx.x * TILE + warp * 32 * ITEMS;
    Load(load[warp]).Load(in + base, items);
    Store(store[warp]).Store(out + base, items);
}
KERNEL(run_length_decode) {
    using Decode = cub::BlockRunLengthDecode<int, THREADS, 1, 2>;
    __shared__ typename Decode::TempStorage room;
    int value[1] = {in[AT]}, length[1] = {2}, total = 0, made[2];
    Decode decode(room, value, length, total);
    decode.RunLengthDecode(made, 0);
    for (int i = 0; i < 2; ++i) out[blockIdx.x * TILE + threadIdx.x * 2 + i] = made[i] + total;
}

KERNEL(cg_reduce_tile) {
    auto tile = cg::tiled_partition<32>(cg::this_thread_block());
    int sum = cg::reduce(tile, in[AT], cg::plus<int>());
    if (tile.thread_rank() == 0) out[AT / 32] = sum;
}
KERNEL(cg_reduce_small_tile) {
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    out[AT] = cg::reduce(tile, in[AT], cg::greater<int>());
}
KERNEL(cg_scan) {
    auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    out[AT] = cg::inclusive_scan(tile, in[AT], cg::plus<int>());
}
KERNEL(cg_coalesced) {
    if (in[AT] % 3 == 0) {
        auto active = cg::coalesced_threads();
        int sum = cg::reduce(active, in[AT], cg::plus<int>());
        if (active.thread_rank() == 0) out[AT] = sum;
    }
}
KERNEL(cg_labeled) {
    auto tile = cg::tiled_partition<32>(cg::this_thread_block());
    auto group = cg::labeled_partition(tile, in[AT] % 4);
    out[AT] = cg::reduce(group, in[AT], cg::plus<int>());
}
KERNEL(cg_binary) {
    auto tile = cg::tiled_partition<32>(cg::this_thread_block());
    auto group = cg::binary_partition(tile, in[AT] % 2 == 0);
    out[AT] = group.shfl(in[AT], 0);
}
KERNEL(cg_shared_tile) {
    __shared__ int s[THREADS];
    auto tile = cg::tiled_partition<32>(cg::this_thread_block());
    s[threadIdx.x] = in[AT];
    tile.sync();
    out[AT] = s[threadIdx.x ^ 1];
}
KERNEL(cg_memcpy_async) {
    __shared__ __align__(16) int s[THREADS];
    auto block = cg::this_thread_block();
    cg::memcpy_async(block, s, in + blockIdx.x * THREADS, sizeof s);
    cg::wait(block);
    out[AT] = s[THREADS - 1 - threadIdx.x];
}
KERNEL(cuda_barrier) {
    using barrier = cuda::barrier<cuda::thread_scope_block>;
    __shared__ alignas(barrier) char room[sizeof(barrier)];
    __shared__ int s[THREADS];
    barrier* meet = reinterpret_cast<barrier*>(room);
    if (threadIdx.x == 0) init(meet, THREADS);
    __syncthreads();
    s[threadIdx.x] = in[AT];
    meet->arrive_and_wait();
    out[AT] = s[THREADS - 1 - threadIdx.x];
}
KERNEL(cuda_barrier_copy) {
    using barrier = cuda::barrier<cuda::thread_scope_block>;
    __shared__ alignas(barrier) char room[sizeof(barrier)];
    __shared__ __align__(16) int s[THREADS];
    barrier* meet = reinterpret_cast<barrier*>(room);
    if (threadIdx.x == 0) init(meet, THREADS);
    __syncthreads();
    cuda::memcpy_async(s + threadIdx.x, in + AT, cuda::aligned_size_t<4>(4), *meet);
    meet->arrive_and_wait();
    out[AT] = s[THREADS - 1 - threadIdx.x];
}
KERNEL(cuda_barrier_wide_copy) {
    using barrier = cuda::barrier<cuda::thread_scope_block>;
    __shared__ alignas(barrier) char room[sizeof(barrier)];
    __shared__ __align__(16) int s[THREADS];
    barrier* meet = reinterpret_cast<barrier*>(room);
    if (threadIdx.x == 0) init(meet, THREADS);
    __syncthreads();
    if (threadIdx.x % 4 == 0) cuda::memcpy_async(s + threadIdx.x, in + AT, cuda::aligned_size_t<16>(16), *meet);
    meet->arrive_and_wait();
    out[AT] = s[THREADS - 1 - threadIdx.x];
}
KERNEL(cuda_pipeline) {
    __shared__ __align__(16) int s[2][THREADS];
    auto pipe = cuda::make_pipeline();
    for (int i = 0; i < 2; ++i) {
        pipe.producer_acquire();
        cuda::memcpy_async(&s[i][threadIdx.x], in + i * 512 + AT, cuda::aligned_size_t<4>(4), pipe);
        pipe.producer_commit();
    }
    cuda::pipeline_consumer_wait_prior<1>(pipe);
    __syncthreads();
    int sum = s[0][threadIdx.x ^ 1];
    pipe.consumer_release();
    cuda::pipeline_consumer_wait_prior<0>(pipe);
    __syncthreads();
    out[AT] = sum + s[1][threadIdx.x ^ 1];
    pipe.consumer_release();
}
KERNEL(cuda_atomic_ref) {
    cuda::atomic_ref<int, cuda::thread_scope_device> sum(out[0]);
    sum.fetch_add(in[AT], cuda::memory_order_relaxed);
}
KERNEL(cuda_atomic_flag) {
    cuda::atomic_ref<int, cuda::thread_scope_device> flag(out[0]);
    if (blockIdx.x == 0 && threadIdx.x == 0) { out[1] = in[0]; flag.store(1, cuda::memory_order_release); }
    if (blockIdx.x == 1 && threadIdx.x == 0) {
        while (flag.load(cuda::memory_order_acquire) == 0) {}
        out[2] = out[1];
    }
}
