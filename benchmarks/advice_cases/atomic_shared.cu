// A count of positive elements in shared memory: one counter for all threads, or a ballot.
__global__ void positive(unsigned* out, const float* in, int n)
{
    __shared__ unsigned count;
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
    unsigned mine = 0;
    for (int k = 0; k < 16; ++k) {
        bool is = in[blockIdx.x * 4096 + k * 256 + threadIdx.x] > 0.f;
#if PLANTED
        if (is) atomicAdd(&count, threadIdx.x + 1u);  // FAULT
#else
        mine += is ? threadIdx.x + 1u : 0u;
#endif
    }
#if !PLANTED
    for (int s = 16; s > 0; s /= 2) mine += __shfl_down_sync(0xffffffff, mine, s);
    if (threadIdx.x % 32 == 0) atomicAdd(&count, mine);
#endif
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = count;
}
