// The last five values of a recurrence: in a ring with a running index, or moved on.
__global__ void filter(float* out, const float* in, int n, int steps)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = in[i];
    float ring[8] = {x, 2.f * x, 3.f * x, 4.f * x, 5.f * x, 0.f, 0.f, 0.f};
#pragma unroll 1
    for (int t = 5; t < steps; ++t) {
#if PLANTED
        ring[t & 7] = 0.3f * ring[(t - 1) & 7] - 0.2f * ring[(t - 4) & 7] + 0.1f * ring[(t - 5) & 7];  // FAULT
#else
        float next = 0.3f * ring[4] - 0.2f * ring[1] + 0.1f * ring[0];
        ring[0] = ring[1]; ring[1] = ring[2]; ring[2] = ring[3]; ring[3] = ring[4]; ring[4] = next;
#endif
    }
#if PLANTED
    out[i] = ring[(steps - 1) & 7];
#else
    out[i] = ring[4];
#endif
}
