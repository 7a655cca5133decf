__global__ void means(float *mean, const float *x, int rows, int columns) {
    __shared__ float sums[128];
    float sum = 0;
    for (int j = threadIdx.x; j < columns; j += 128) sum += x[(long long)blockIdx.x * columns + j];
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int apart = 64; apart; apart /= 2) {
        if (threadIdx.x < apart) sums[threadIdx.x] += sums[threadIdx.x + apart];
        __syncthreads();
    }
    if (threadIdx.x == 0) mean[blockIdx.x] = sums[0] / columns;
}
