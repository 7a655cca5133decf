// Sum of n floats: each thread adds several, a block adds its threads in shared memory, blocks add with one atomic.
#ifndef block_size
#define block_size 256
#endif
#ifndef use_shuffle
#define use_shuffle 1
#endif

__global__ void reduce(float *total, const float *x, int n)
{
    __shared__ float partial[block_size];
    float sum = 0.0f;
    for (int i = blockIdx.x * block_size + threadIdx.x; i < n; i += gridDim.x * block_size) {
        sum += x[i];
    }
#if use_shuffle
    for (int offset = 16; offset > 0; offset /= 2) {
        sum += __shfl_down_sync(0xffffffff, sum, offset);
    }
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < block_size / 32; i++) sum += partial[i];
        atomicAdd(total, sum);
    }
#else
    partial[threadIdx.x] = sum;
    __syncthreads();
    for (int half = block_size / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(total, partial[0]);
#endif
}
