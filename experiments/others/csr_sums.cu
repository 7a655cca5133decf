// Sums of rows of different lengths; `lanes` neighbouring threads share a row, and CUB adds what they found.
#include <cub/warp/warp_reduce.cuh>

__global__ void csr_sums(float *sums, const int *start, const float *value, int rows)
{
    using Reduce = cub::WarpReduce<float, lanes>;
    __shared__ typename Reduce::TempStorage room[threads / lanes];
    int row = (blockIdx.x * threads + threadIdx.x) / lanes, lane = threadIdx.x % lanes;
    float sum = 0.0f;
    if (row < rows)
        for (int k = start[row] + lane; k < start[row + 1]; k += lanes) sum += value[k];
    sum = Reduce(room[threadIdx.x / lanes]).Sum(sum);
    if (row < rows && lane == 0) sums[row] = sum;
}
