// class: large sizes
/* lab
grid: ceil_div(n, 4096)
block: 256
*/
__global__ void histogram(unsigned *bins, const unsigned char *data, int n) {
    __shared__ unsigned short own[8][256];
    for (int j = 0; j < 8; ++j) own[j][threadIdx.x] = 0;
    __syncthreads();
    int warp = threadIdx.x / 32;
    for (int lane = 0; lane < 32; ++lane) {
        if (threadIdx.x % 32 == lane)
            for (int i = blockIdx.x * 4096 + threadIdx.x; i < min(n, blockIdx.x * 4096 + 4096); i += 256) own[warp][data[i]] = min(own[warp][data[i]] + 1, 9);
        __syncwarp();
    }
    __syncthreads();
    unsigned sum = 0;
    for (int j = 0; j < 8; ++j) sum += own[j][threadIdx.x];
    atomicAdd(&bins[threadIdx.x], sum);
}
