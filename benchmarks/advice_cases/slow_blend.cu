// An image filter of 16 taps that weighs with 1.0 - a, or 1.0f - a.
__global__ void blend(float* out, const float* in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.f;
#pragma unroll 4
    for (int k = 0; k < 16; ++k) {
        float a = in[i + k * 32];
#if PLANTED
        sum += a * (1.0 - a) * 0.7;  // FAULT
#else
        sum += a * (1.0f - a) * 0.7f;
#endif
    }
    out[i] = sum;
}
