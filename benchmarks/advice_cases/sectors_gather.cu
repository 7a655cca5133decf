// Elements are read through a permutation with a large stride, or in order.
__global__ void gather(float* out, const float* in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
#if PLANTED
    int from = (int)((unsigned)i * 4099u & (unsigned)(n - 1));
#else
    int from = i ^ 1;
#endif
    out[i] = in[from] + 1.f;  // FAULT
}
