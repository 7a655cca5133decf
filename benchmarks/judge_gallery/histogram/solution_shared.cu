/* lab
grid: ceil_div(n, 2048)
block: 256
*/
__global__ void histogram(unsigned *bins, const unsigned char *data, int n) {
    __shared__ unsigned own[256];
    own[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 2048 + threadIdx.x; i < min(n, blockIdx.x * 2048 + 2048); i += 256) atomicAdd(&own[data[i]], 1u);
    __syncthreads();
    atomicAdd(&bins[threadIdx.x], own[threadIdx.x]);
}
