// Sixteen elements a thread: next to each other, or a block apart.
__global__ void square(float* out, const float* in, int n)
{
    int first = blockIdx.x * 256 * 16;
#pragma unroll 1
    for (int k = 0; k < 16; ++k) {
#if PLANTED
        int i = first + threadIdx.x * 16 + k;
#else
        int i = first + k * 256 + threadIdx.x;
#endif
        out[i] = in[i] * in[i];  // FAULT
    }
}
