// Counters of each thread: in an array with a computed index, or packed into words.
__global__ void digits(unsigned* out, const unsigned* in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
#if PLANTED
    unsigned count[8] = {};
    for (int k = 0; k < 32; ++k) ++count[in[k * n + i] & 7];  // FAULT
    unsigned most = 0;
#pragma unroll
    for (int d = 0; d < 8; ++d) most = max(most, count[d]);
#else
    unsigned long long count = 0;
    for (int k = 0; k < 32; ++k) count += 1ull << 8 * (in[k * n + i] & 7);
    unsigned most = 0;
#pragma unroll
    for (int d = 0; d < 8; ++d) most = max(most, (unsigned)(count >> 8 * d) & 255u);
#endif
    out[i] = most;
}
