// Every lane reads words from random places of a buffer: sectors of which one word is used.
__global__ void scattered(float *out, const float *x, int words, int passes)
{
    unsigned thread = blockIdx.x * threads + threadIdx.x, state = thread * 2654435761u + 12345u;
    float sum = 0.0f;
    for (int k = 0; k < passes; k += 8)
#pragma unroll
        for (int j = 0; j < 8; j++) state = state * 1664525u + 1013904223u, sum += x[(state >> 3) & (words - 1)];
    out[thread] = sum;
}
