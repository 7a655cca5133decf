// Loads from shared memory `stride` words apart: as many wavefronts as words share a bank.
__global__ void banks(float *out, int steps)
{
    __shared__ volatile float held[32 * 32 + 32];
    for (int i = threadIdx.x; i < 32 * 32 + 32; i += threads) held[i] = 1.0f;
    __syncthreads();
    int at = threadIdx.x % 32 * stride;
    float sum = 0.0f;
    for (int k = 0; k < steps; k += 8)
#pragma unroll
        for (int j = 0; j < 8; j++) sum += held[at + j];
    out[blockIdx.x * threads + threadIdx.x] = sum;
}
