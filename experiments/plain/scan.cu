// Inclusive prefix sums of each segment of block_size * items elements, one block a segment.
__global__ void scan(float *y, const float *x, int n)
{
    __shared__ float sums[block_size];
    int first = (blockIdx.x * block_size + threadIdx.x) * items;
    float mine[items], running = 0.0f;
    for (int k = 0; k < items; k++) {
        running += first + k < n ? x[first + k] : 0.0f;
        mine[k] = running;
    }
    sums[threadIdx.x] = running;
    __syncthreads();
    for (int offset = 1; offset < block_size; offset *= 2) {
        float other = threadIdx.x >= offset ? sums[threadIdx.x - offset] : 0.0f;
        __syncthreads();
        sums[threadIdx.x] += other;
        __syncthreads();
    }
    float before = threadIdx.x ? sums[threadIdx.x - 1] : 0.0f;
    for (int k = 0; k < items; k++)
        if (first + k < n) y[first + k] = before + mine[k];
}
