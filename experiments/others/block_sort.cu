// Sorts segments of `size` keys in shared memory, bitonic; a thread compares size / 2 / threads pairs a step.
__global__ void block_sort(int *keys)
{
    __shared__ int held[size];
    int *mine = keys + (size_t)blockIdx.x * size;
    for (int i = threadIdx.x; i < size; i += threads) held[i] = mine[i];
    for (int run = 2; run <= size; run *= 2)
        for (int apart = run / 2; apart > 0; apart /= 2) {
            __syncthreads();
            for (int p = threadIdx.x; p < size / 2; p += threads) {
                int i = 2 * p - (p & (apart - 1)), j = i + apart;
                int a = held[i], b = held[j];
                if ((a > b) == ((i & run) == 0)) held[i] = b, held[j] = a;
            }
        }
    __syncthreads();
    for (int i = threadIdx.x; i < size; i += threads) mine[i] = held[i];
}
