// A function that is not inlined gets a pointer to an array of the thread's, or takes its elements.
__device__ __noinline__ float dot(const float* a, const float* b)
{
    float sum = 0.f;
    for (int k = 0; k < 8; ++k) sum = fmaf(a[k], b[k], sum);  // FAULT
    return sum;
}
__device__ __forceinline__ float dot_inline(const float* a, const float* b)
{
    float sum = 0.f;
#pragma unroll
    for (int k = 0; k < 8; ++k) sum = fmaf(a[k], b[k], sum);
    return sum;
}
__global__ void products(float* out, const float* in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float a[8], b[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) { a[k] = in[k * n + i]; b[k] = a[k] * 0.5f + 1.f; }
    float sum = 0.f;
    for (int r = 0; r < 16; ++r) {
#if PLANTED
        sum += dot(a, b);
#else
        sum += dot_inline(a, b);
#endif
        a[0] = sum * 0.01f;
    }
    out[i] = sum;
}
