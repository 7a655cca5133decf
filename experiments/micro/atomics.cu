// Each thread adds to `per_thread` counters of `counters`, `spread` words apart.
// They add 1 of type T, which the compiler knows where `known` is 1.
// scattered: every lane picks its own; together: the lanes of a warp pick neighbours of a random 32.
__device__ T added(unsigned int counters)
{
    return known ? 1 : counters > 0;
}

__device__ unsigned int mixed(unsigned int x)
{
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    return x ^ (x >> 16);
}

__device__ unsigned int chosen(unsigned int update, unsigned int counters)
{
#if together
    return (mixed(update / 32) % (counters / 32)) * 32 + update % 32;
#else
    return mixed(update) % counters;
#endif
}

__global__ void in_global(T *sums, unsigned int counters, int spread)
{
    unsigned int first = blockIdx.x * 256 * per_thread + threadIdx.x;
    for (int k = 0; k < per_thread; k++)
        atomicAdd(&sums[chosen(first + 256 * k, counters) * spread], added(counters));
}

__global__ void in_shared(T *sums, unsigned int counters, int spread)
{
    extern __shared__ T mine[];
    for (int i = threadIdx.x; i < counters * spread; i += 256) mine[i] = 0;
    __syncthreads();
    unsigned int first = blockIdx.x * 256 * per_thread + threadIdx.x;
    for (int k = 0; k < per_thread; k++)
        atomicAdd(&mine[chosen(first + 256 * k, counters) * spread], added(counters));
    __syncthreads();
    for (int i = threadIdx.x; i < counters * spread; i += 256)
        if (mine[i]) sums[blockIdx.x * counters * spread + i] = mine[i];
}
