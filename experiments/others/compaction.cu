// Counts the positive numbers of each bucket: who adds, every thread, a warp or a block?
__global__ void count_positive(int *total, const float *x, int n)
{
    int count = 0;
    for (int k = 0; k < items; k++) {
        int i = (blockIdx.x * items + k) * threads + threadIdx.x;
        count += i < n && x[i] > 0.0f;
    }
#if adder == 0
    if (count) atomicAdd(total, count);
#elif adder == 1
    for (int step = 16; step > 0; step /= 2) count += __shfl_down_sync(0xffffffffu, count, step);
    if (threadIdx.x % 32 == 0) atomicAdd(total, count);
#else
    __shared__ int sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    atomicAdd(&sum, count);
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(total, sum);
#endif
}
