// A root in double precision in the middle of float code, or in float.
__global__ void lengths(float* out, const float* x, const float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float a = x[i], b = y[i], sum = 0.f;
#pragma unroll 1
    for (int k = 0; k < 32; ++k) {
#if PLANTED
        sum += sqrt((double)(a * a + b * b));  // FAULT
#else
        sum += sqrtf(a * a + b * b);
#endif
        a += 0.01f;
    }
    out[i] = sum;
}
