// y = A x for a row-major A; `lanes` neighbouring threads share a row.
__global__ void matvec(float *y, const float *a, const float *x, int m, int n)
{
    int row = (blockIdx.x * threads + threadIdx.x) / lanes, lane = threadIdx.x % lanes;
    float sum = 0.0f;
    if (row < m)
        for (int k = lane; k < n; k += lanes) sum += a[(size_t)row * n + k] * x[k];
    for (int step = lanes / 2; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step, lanes);
    if (row < m && lane == 0) y[row] = sum;
}
