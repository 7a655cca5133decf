// y = A x, A with `width` entries a row that lie column by column, so that neighbouring threads read neighbours.
__global__ void ell(float *y, const int *column, const float *value, const float *x, int rows)
{
    int first = blockIdx.x * threads * items + threadIdx.x;
    for (int k = 0; k < items; k++) {
        int row = first + k * threads;
        float sum = 0.0f;
        if (row < rows) {
#pragma unroll unrolled
            for (int e = 0; e < width; e++) sum += value[e * rows + row] * x[column[e * rows + row]];
            y[row] = sum;
        }
    }
}
