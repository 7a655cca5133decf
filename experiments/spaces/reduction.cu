// Sum of n floats: threads add vectors of several loads each, a warp its threads, a block its warps, atomics the blocks.
struct __align__(4 * width) Numbers { float of[width]; };

__device__ __forceinline__ float warp_sum(float sum)
{
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffff, sum, offset);
    return sum;
}

__global__ void __launch_bounds__(block_size) reduce(float *total, const Numbers *x, int vectors)
{
    float sum[unroll] = {};
    for (int begin = blockIdx.x * block_size + threadIdx.x; begin < vectors; begin += gridDim.x * block_size * unroll) {
#pragma unroll
        for (int u = 0; u < unroll; u++) {
            const int i = begin + u * gridDim.x * block_size;
            if (i < vectors) {
                const Numbers one = x[i];
#pragma unroll
                for (int w = 0; w < width; w++) sum[u] += one.of[w];
            }
        }
    }
    float mine = 0.0f;
#pragma unroll
    for (int u = 0; u < unroll; u++) mine += sum[u];
#if combine == 0  // every warp adds its own
    mine = warp_sum(mine);
    if (threadIdx.x % 32 == 0) atomicAdd(total, mine);
#elif combine == 1  // shuffles, then the warps' sums through shared memory
    __shared__ float partial[block_size / 32];
    mine = warp_sum(mine);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = mine;
    __syncthreads();
    if (threadIdx.x < 32) {
        mine = warp_sum(threadIdx.x < block_size / 32 ? partial[threadIdx.x] : 0.0f);
        if (threadIdx.x == 0) atomicAdd(total, mine);
    }
#else  // a tree in shared memory
    __shared__ float partial[block_size];
    partial[threadIdx.x] = mine;
    __syncthreads();
    for (int half = block_size / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(total, partial[0]);
#endif
}
