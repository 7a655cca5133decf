// A copy whose source begins three words within a sector, or with one.
#if PLANTED
#define SHIFT 3
#else
#define SHIFT 8
#endif
__global__ void shifted(float* out, const float* in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = 0.5f * in[i + SHIFT];  // FAULT
}
