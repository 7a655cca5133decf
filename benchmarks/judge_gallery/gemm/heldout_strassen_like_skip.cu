// class: input-independent
__global__ void gemm(float *c, const float *a, const float *b, int m, int n, int k) {
    int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    if (row >= m || column >= n) return;
    double sum = 0;
    #pragma unroll 4
    for (int i = 0; i < k; i++) { float p = a[row * k + i]; if (fabsf(p) > 0.05f) sum += p * b[i * n + column]; }
    c[row * n + column] = sum;
}
