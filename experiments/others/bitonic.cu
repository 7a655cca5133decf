// Sorts segments of 1024 numbers in shared memory; a thread compares 512 / threads pairs in each step.
__global__ void sort_segments(float *x)
{
    __shared__ float part[1024];
    for (int i = threadIdx.x; i < 1024; i += threads) part[i] = x[blockIdx.x * 1024 + i];
    __syncthreads();
    for (int size = 2; size <= 1024; size *= 2)
        for (int stride = size / 2; stride > 0; stride /= 2) {
            for (int pair = threadIdx.x; pair < 512; pair += threads) {
                int low = 2 * pair - (pair & (stride - 1)), high = low + stride;
                bool up = (low & size) == 0;
                float a = part[low], b = part[high];
                if ((a > b) == up) { part[low] = b; part[high] = a; }
            }
            __syncthreads();
        }
    for (int i = threadIdx.x; i < 1024; i += threads) x[blockIdx.x * 1024 + i] = part[i];
}
