// class: input-independent
__global__ void means(float *mean, const float *x, int rows, int columns) {
    const float *row = x + (size_t)blockIdx.x * columns;
    float sum = 0; int taken = 0;
    for (int j = threadIdx.x; j < columns; j += 256) { sum += row[j]; ++taken; }
    __shared__ float s[128]; __shared__ int t[128];
    s[threadIdx.x] = sum; t[threadIdx.x] = taken; __syncthreads();
    if (threadIdx.x == 0) { for (int i = 1; i < 128; ++i) { sum += s[i]; taken += t[i]; } mean[blockIdx.x] = sum / taken; }
}
