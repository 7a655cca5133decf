// y = A x, A in compressed rows of `width` entries each (columns wrap round); `lanes` threads share a row.
__global__ void spmv(float *y, const int *start, const int *column, const float *value, const float *x, int rows)
{
    int thread = blockIdx.x * blockDim.x + threadIdx.x;
    int row = thread / lanes, lane = thread % lanes;
    float sum = 0.0f;
    if (row < rows) {
        for (int k = start[row] + lane; k < start[row + 1]; k += lanes) sum += value[k] * x[column[k]];
    }
    for (int offset = lanes / 2; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffff, sum, offset, lanes);
    if (row < rows && lane == 0) y[row] = sum;
}
