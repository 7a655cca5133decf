// Loads from constant memory in which `distinct` words of `bytes` bytes are read by each warp.
__constant__ float table[1024];

__global__ void constants(float *out, int steps)
{
    int at = threadIdx.x % distinct;
    float sum = 0.0f;
    for (int k = 0; k < steps; k += 8)
#pragma unroll
        for (int j = 0; j < 8; j++) {
            sum += table[at];
            at = (at + distinct) % (bytes / 4);
        }
    out[blockIdx.x * threads + threadIdx.x] = sum;
}
