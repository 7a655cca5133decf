// A histogram of 16 bins: in global memory, or first in shared memory, with one copy for each warp.
__global__ void bins(unsigned* count, const unsigned* in, int n)
{
#if PLANTED
    for (int k = 0; k < 8; ++k) atomicAdd(&count[in[blockIdx.x * 2048 + k * 256 + threadIdx.x] & 15], 1u);  // FAULT
#else
    __shared__ unsigned mine[16 * 32];
    for (int k = threadIdx.x; k < 512; k += 256) mine[k] = 0;
    __syncthreads();
    for (int k = 0; k < 8; ++k)
        atomicAdd(&mine[(in[blockIdx.x * 2048 + k * 256 + threadIdx.x] & 15) * 32 + threadIdx.x % 32], 1u);
    __syncthreads();
    unsigned all = 0;
    for (int k = 0; k < 32; ++k) all += mine[(threadIdx.x & 15) * 32 + ((k + threadIdx.x) & 31)];
    if (threadIdx.x < 16) atomicAdd(&count[threadIdx.x], all);
#endif
}
