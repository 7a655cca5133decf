// class: precision
/* lab
grid: 64
block: 128
*/
__global__ void dot(double *result, const double *x, const double *y, int n) {
    float sum = 0;
    for (int i = blockIdx.x * 128 + threadIdx.x; i < n; i += 64 * 128) sum = fmaf(float(x[i]), float(y[i]), sum);
    for (int apart = 16; apart; apart /= 2) sum += __shfl_xor_sync(~0u, sum, apart);
    if (threadIdx.x % 32 == 0) atomicAdd(result, double(sum));
}
