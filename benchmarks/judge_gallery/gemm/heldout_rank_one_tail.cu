// class: tails
__global__ void gemm(float *c, const float *a, const float *b, int m, int n, int k) {
    for (int e = (blockIdx.y * gridDim.x + blockIdx.x) * 256 + threadIdx.y * 16 + threadIdx.x; e < m * n; e += gridDim.x * gridDim.y * 256) {
        int r = e / n, q = e % n; float s = 0;
        for (int i = 0; i < (k & ~3); ++i) s += a[r * k + i] * b[i * n + q];
        c[e] = s;
    }
}
