/* lab
grid: ceil_div(n, 1024)
block: 256
*/
__global__ void total(float *total, const float *x, int n) {
    float sum = 0;
    for (int i = blockIdx.x * 1024 + threadIdx.x; i < min(n, blockIdx.x * 1024 + 1024); i += 256) sum += x[i];
    for (int apart = 16; apart; apart /= 2) sum += __shfl_xor_sync(~0u, sum, apart);
    if (threadIdx.x % 32 == 0) atomicAdd(total, sum);
}
