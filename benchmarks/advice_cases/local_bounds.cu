// 48 running sums in registers, and a bound that leaves 32 or 128 of them.
#if PLANTED
#define BLOCKS 8
#else
#define BLOCKS 2
#endif
__global__ void __launch_bounds__(256, BLOCKS) taps(float* out, const float* in, const float* coef, int n)
{
    float acc[48];
    int i = blockIdx.x * 256 + threadIdx.x;
#pragma unroll
    for (int k = 0; k < 48; ++k) acc[k] = 0.f;
    for (int t = 0; t < 64; ++t) {
        float x = in[min(i + t, n - 1)];
#pragma unroll
        for (int k = 0; k < 48; ++k) acc[k] = fmaf(x, coef[t * 48 + k], acc[k]);  // FAULT
    }
    float s = 0.f;
#pragma unroll
    for (int k = 0; k < 48; ++k) s += acc[k] * acc[k];
    out[i] = s;
}
