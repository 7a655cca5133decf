// A reduction in shared memory: with strides that grow, and with strides that shrink.
__global__ void reduce(float* out, const float* in, int n)
{
    __shared__ float part[256];
    float mine = 0.f;
    for (int k = 0; k < 4; ++k) mine += in[blockIdx.x * 1024 + k * 256 + threadIdx.x];
    part[threadIdx.x] = mine;
    __syncthreads();
#if PLANTED
    for (int s = 1; s < 256; s *= 2) {
        int i = 2 * s * threadIdx.x;
        if (i < 256) part[i] += part[i + s];  // FAULT
        __syncthreads();
    }
#else
    for (int s = 128; s > 0; s /= 2) {
        if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
        __syncthreads();
    }
#endif
    if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}
