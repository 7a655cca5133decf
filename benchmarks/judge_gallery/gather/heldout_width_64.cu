// class: special sizes
__global__ __launch_bounds__(64) void gather(float *__restrict__ out, const float *__restrict__ table, const int *__restrict__ index, int rows, int width, int picks) {
    const unsigned j = threadIdx.x;
    if (j < width) out[blockIdx.x * width + j] = __ldg(table + index[blockIdx.x] * width + j);
}
