// A small table for each thread, with an index that is known only when it runs: in an array, or in shared memory.
__global__ void sorted(float* out, const float* in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
#if PLANTED
    float kept[16];
#define KEPT(k) kept[k]
#else
    __shared__ float table[16 * 256];
#define KEPT(k) table[(k) * 256 + threadIdx.x]
#endif
#pragma unroll
    for (int k = 0; k < 16; ++k) KEPT(k) = in[k * n + i];
    float sum = 0.f;
    for (int r = 0; r < 64; ++r) {
        sum = sum * 0.5f + KEPT((r * 7 + i) & 15);  // FAULT
    }
    out[i] = sum;
}
