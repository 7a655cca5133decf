__global__ void gemm(float *c, const float *a, const float *b, int m, int n, int k) {
    int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    if (row >= m || column >= n) return;
    float sum = 0;
    for (int i = 0; i < k; ++i) sum = fmaf(a[row * k + i], b[i * n + column], sum);
    c[row * n + column] = sum;
}
