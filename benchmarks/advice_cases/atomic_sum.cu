// A sum over all elements: an atomic for each thread, or for each block of them.
__global__ void sum(float* total, const float* in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float mine = i < n ? in[i] : 0.f;
#if PLANTED
    atomicAdd(total, mine);  // FAULT
#else
    __shared__ float part[8];
    for (int s = 16; s > 0; s /= 2) mine += __shfl_down_sync(0xffffffff, mine, s);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = mine;
    __syncthreads();
    if (threadIdx.x < 8) {
        mine = part[threadIdx.x];
        for (int s = 4; s > 0; s /= 2) mine += __shfl_down_sync(0xff, mine, s);
        if (threadIdx.x == 0) atomicAdd(total, mine);
    }
#endif
}
