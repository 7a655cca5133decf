// All blocks read the same `words` words of 16 bytes again and again, each from a place of its own.
__global__ void read(float *out, const float4 *x, int words, int passes)
{
    float sum = 0.0f;
    int thread = blockIdx.x * threads + threadIdx.x;
    unsigned at = (blockIdx.x * (words / gridDim.x / threads) * threads + threadIdx.x) & (words - 1);
    for (int k = 0; k < passes; k += 4) {
        float4 found[4];
#pragma unroll
        for (int j = 0; j < 4; j++) found[j] = x[at], at = (at + threads) & (words - 1);
#pragma unroll
        for (int j = 0; j < 4; j++) sum += found[j].x + found[j].y + found[j].z + found[j].w;
    }
    out[thread] = sum;
}
