// A matrix with rows in memory one after the other; neighbouring threads take neighbouring rows, or columns.
__global__ void scale(float* out, const float* in, int n)
{
    int a = blockIdx.x * 32 + threadIdx.x, b = blockIdx.y * 8 + threadIdx.y;
#if PLANTED
    int at = a * n + b;
#else
    int at = b * n + a;
#endif
    out[at] = 2.f * in[at];  // FAULT
}
