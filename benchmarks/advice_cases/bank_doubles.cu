// Columns of a tile of doubles.
#if PLANTED
#define PITCH 16
#else
#define PITCH 17
#endif
__global__ void columns(double* out, const double* in, int n)
{
    __shared__ double tile[64 * PITCH];
    const double* block = in + blockIdx.x * 64 * 16;
    for (int i = threadIdx.x; i < 64 * 16; i += 64) tile[i / 16 * PITCH + i % 16] = block[i];
    __syncthreads();
    double sum = 0;
    for (int round = 0; round < 8; ++round)
        for (int k = 0; k < 16; ++k) sum = fma(tile[threadIdx.x * PITCH + k], 0.5, sum);  // FAULT
    out[blockIdx.x * 64 + threadIdx.x] = sum;
}
