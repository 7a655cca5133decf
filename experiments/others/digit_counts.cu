// The first step of a radix sort: how often each digit of 4 bits occurs among the keys of a block.
__global__ void digit_counts(unsigned *counts, const unsigned *keys, int n, int shift)
{
    __shared__ unsigned mine[16 * copies];
    for (int i = threadIdx.x; i < 16 * copies; i += threads) mine[i] = 0;
    __syncthreads();
    int first = blockIdx.x * threads * items;
    for (int k = 0; k < items; k++) {
        int i = first + k * threads + threadIdx.x;
        if (i < n) atomicAdd(&mine[(keys[i] >> shift & 15) * copies + threadIdx.x % copies], 1u);
    }
    __syncthreads();
    for (int d = threadIdx.x; d < 16; d += threads) {
        unsigned sum = 0;
        for (int c = 0; c < copies; c++) sum += mine[d * copies + c];
        counts[d * gridDim.x + blockIdx.x] = sum;
    }
}
