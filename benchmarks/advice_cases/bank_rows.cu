// Every thread sums up a row of the tile; the rows begin 64 words apart.
#if PLANTED
#define PITCH 64
#else
#define PITCH 65
#endif
__global__ void rows(float* out, const float* in, int n)
{
    extern __shared__ float tile[];
    const float* block = in + blockIdx.x * 128 * 64;
    for (int i = threadIdx.x; i < 128 * 64; i += 128) tile[i / 64 * PITCH + i % 64] = block[i];
    __syncthreads();
    float sum = 0.f;
    for (int k = 0; k < 64; ++k) sum += tile[threadIdx.x * PITCH + k];  // FAULT
    out[blockIdx.x * 128 + threadIdx.x] = sum;
}
