// A scalar product in double precision by a fixed number of blocks.
__global__ void dot(double *result, const double *x, const double *y, int n)
{
    __shared__ double parts[threads];
    double sum = 0.0;
    for (int i = blockIdx.x * threads + threadIdx.x; i < n; i += gridDim.x * threads) sum += x[i] * y[i];
    parts[threadIdx.x] = sum;
    for (int step = threads / 2; step > 0; step /= 2) {
        __syncthreads();
        if (threadIdx.x < step) parts[threadIdx.x] += parts[threadIdx.x + step];
    }
    if (threadIdx.x == 0) atomicAdd(result, parts[0]);
}
