static __device__ __forceinline__ unsigned bin_of(unsigned char value) { return value; }

static __global__ void histogram(const unsigned char* data, unsigned int n, unsigned int* __restrict__ bins)
{
    extern __shared__ unsigned int local[];
    for (unsigned b = threadIdx.x; b < 256; b += blockDim.x) local[b] = 0;
    __syncthreads();
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&local[bin_of(data[i])], 1u);
    __syncthreads();
    for (unsigned b = threadIdx.x; b < 256; b += blockDim.x) atomicAdd(&bins[b], local[b]);
}
