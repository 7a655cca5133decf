// Sums of rows of different lengths; `lanes` neighbours share a row.
__global__ void csr_sums(float *sums, const float *values, const int *starts, int rows)
{
    const int row = (blockIdx.x * threads + threadIdx.x) / lanes, lane = threadIdx.x % lanes;
    float sum = 0;
    if (row < rows)
        for (int i = starts[row] + lane; i < starts[row + 1]; i += lanes) sum += values[i];
#pragma unroll
    for (int apart = lanes / 2; apart > 0; apart /= 2) sum += __shfl_xor_sync(0xffffffff, sum, apart);
    if (row < rows && lane == 0) sums[row] = sum;
}
