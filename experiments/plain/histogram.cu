// 256 bins of bytes. privatised: one histogram per block in shared memory, added to the result at the end.
__global__ void histogram(unsigned int *bins, const unsigned char *data, int n)
{
#if privatised
    __shared__ unsigned int mine[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) mine[i] = 0;
    __syncthreads();
#else
    unsigned int *mine = bins;
#endif
    int stride = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
        atomicAdd(&mine[data[i]], 1u);
    }
#if privatised
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(&bins[i], mine[i]);
#endif
}
