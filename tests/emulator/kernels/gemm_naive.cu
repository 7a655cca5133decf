// C = alpha A B + beta C, column-major, one element a thread.
template <typename T>
__device__ void naive(int m, int n, int k, T alpha, const T *a, int lda, const T *b, int ldb, T beta, T *c, int ldc) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    int col = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= m || col >= n) return;
    T sum = 0;
    for (int i = 0; i < k; ++i) sum += a[row + i * lda] * b[i + col * ldb];
    T *out = c + row + col * ldc;
    *out = beta == T(0) ? alpha * sum : alpha * sum + beta * *out;
}

extern "C" __global__ void sgemm(int m, int n, int k, float alpha, const float *a, int lda, const float *b, int ldb,
                                 float beta, float *c, int ldc) {
    naive<float>(m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

extern "C" __global__ void dgemm(int m, int n, int k, double alpha, const double *a, int lda, const double *b, int ldb,
                                 double beta, double *c, int ldc) {
    naive<double>(m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
