/* lab
scratch: {partial: "float32[ceil_div(n, 1024)]"}
launches:
  - {kernel: sums, grid: "ceil_div(n, 1024)", block: 256, arguments: [partial, x, n]}
  - {kernel: last, grid: 1, block: 32, arguments: [total, partial, n]}
*/
__device__ float warp_sum(float sum) {
    for (int apart = 16; apart; apart /= 2) sum += __shfl_xor_sync(~0u, sum, apart);
    return sum;
}
__global__ void sums(float *partial, const float *x, int n) {
    __shared__ float held[8];
    float sum = 0;
    for (int i = blockIdx.x * 1024 + threadIdx.x; i < min(n, blockIdx.x * 1024 + 1024); i += 256) sum += x[i];
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) held[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < 8; ++i) sum += held[i];
        partial[blockIdx.x] = sum;
    }
}
__global__ void last(float *total, const float *partial, int n) {
    float sum = 0;
    for (int i = threadIdx.x; i < (n + 1023) / 1024; i += 32) sum += partial[i];
    sum = warp_sum(sum);
    if (threadIdx.x == 0) *total += sum;
}
