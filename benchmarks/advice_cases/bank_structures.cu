// Particles of eight floats lie one after the other in shared memory.
__global__ void nearest(float* out, const float* in, int n)
{
    __shared__ float bodies[8 * 257];
    int i = blockIdx.x * 256 + threadIdx.x;
#if PLANTED
#define AT(body, part) bodies[(body) * 8 + (part)]
#else
#define AT(body, part) bodies[(part) * 257 + (body)]
#endif
    for (int part = 0; part < 8; ++part) AT(threadIdx.x, part) = in[part * n + i];
    __syncthreads();
    float sum = 0.f;
    for (int k = 0; k < 256; ++k) {
        int other = (threadIdx.x + k) & 255;
        float dx = AT(other, 0), dy = AT(other, 1), dz = AT(other, 2);  // FAULT
        sum += rsqrtf(dx * dx + dy * dy + dz * dz + 1.f);
    }
    out[i] = sum;
}
