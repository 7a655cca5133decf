// Constants of a polynomial: of type double, or float.
#if PLANTED
#define C(x) x
#else
#define C(x) x##f
#endif
__global__ void poly(float* out, const float* in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = in[i], y = x;
#pragma unroll 1
    for (int k = 0; k < 64; ++k) y = y * (C(0.5) + C(0.25) * x) + C(0.125);  // FAULT
    out[i] = y;
}
