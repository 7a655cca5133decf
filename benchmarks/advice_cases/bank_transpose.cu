// A tile is read along its columns.
#if PLANTED
#define PITCH 32
#else
#define PITCH 33
#endif
__global__ void transpose(float* out, const float* in, int n)
{
    __shared__ float tile[32 * PITCH];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8) tile[(threadIdx.y + j) * PITCH + threadIdx.x] = in[(y + j) * n + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8) out[(y + j) * n + x] = tile[threadIdx.x * PITCH + threadIdx.y + j];  // FAULT
}
