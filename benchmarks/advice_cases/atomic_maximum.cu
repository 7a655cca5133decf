// The largest element: an atomic for each thread, or one for each warp.
__global__ void largest(int* most, const int* in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
#if PLANTED
    atomicMax(most, in[i]);  // FAULT
#else
    __shared__ int part[8];
    int mine = max(max(in[i], in[i ^ 32]), in[i ^ 64]);
    for (int s = 16; s > 0; s /= 2) mine = max(mine, __shfl_down_sync(0xffffffff, mine, s));
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = mine;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < 8; ++w) mine = max(mine, part[w]);
        atomicMax(most, mine);
    }
#endif
}
