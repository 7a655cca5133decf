// Damped inverses of matrices of 3 x 3 that lie one after the other: adjoint / (1 + |determinant|).
__global__ void inverse3(float *out, const float *in, int n)
{
    for (int k = 0; k < items; k++) {
        int i = (blockIdx.x * items + k) * threads + threadIdx.x;
        if (i >= n) return;
        const float *a = in + 9 * i;
        float c0 = a[4] * a[8] - a[5] * a[7], c1 = a[5] * a[6] - a[3] * a[8], c2 = a[3] * a[7] - a[4] * a[6];
        float r = 1.0f / (1.0f + fabsf(a[0] * c0 + a[1] * c1 + a[2] * c2)), *b = out + 9 * i;
        b[0] = c0 * r, b[1] = (a[2] * a[7] - a[1] * a[8]) * r, b[2] = (a[1] * a[5] - a[2] * a[4]) * r;
        b[3] = c1 * r, b[4] = (a[0] * a[8] - a[2] * a[6]) * r, b[5] = (a[2] * a[3] - a[0] * a[5]) * r;
        b[6] = c2 * r, b[7] = (a[1] * a[6] - a[0] * a[7]) * r, b[8] = (a[0] * a[4] - a[1] * a[3]) * r;
    }
}
