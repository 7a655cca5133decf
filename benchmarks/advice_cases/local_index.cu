// A small table for each thread, with an index that is known only when it runs.
__global__ void sorted(float* out, const float* in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float kept[16];
#pragma unroll
    for (int k = 0; k < 16; ++k) kept[k] = in[k * n + i];
    float sum = 0.f;
    for (int r = 0; r < 64; ++r) {
#if PLANTED
        sum = sum * 0.5f + kept[(r * 7 + i) & 15];  // FAULT
#else
#pragma unroll
        for (int k = 0; k < 16; ++k) sum += ((r * 7 + i) & 15) == k ? kept[k] : 0.f;
#endif
    }
    out[i] = sum;
}
