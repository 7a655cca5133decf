// Attention of one query a warp: out = softmax(q K^T) V over `keys` keys; a lane holds width / 32 of the row.
__global__ void attention(float *out, const float *q, const float *k, const float *v, int keys)
{
    int lane = threadIdx.x % 32, query = (blockIdx.x * threads + threadIdx.x) / 32;
    float mine[width / 32], sum[width / 32] = {}, most = -1e30f, total = 0.0f;
    for (int j = 0; j < width / 32; j++) mine[j] = q[query * width + j * 32 + lane];
    for (int i = 0; i < keys; i++) {
        float dot = 0.0f;
        for (int j = 0; j < width / 32; j++) dot += mine[j] * k[i * width + j * 32 + lane];
        for (int step = 16; step > 0; step /= 2) dot += __shfl_xor_sync(0xffffffffu, dot, step);
        dot *= 0.125f;
        float next = fmaxf(most, dot), scale = __expf(most - next), weight = __expf(dot - next);
        total = total * scale + weight;
        for (int j = 0; j < width / 32; j++) sum[j] = sum[j] * scale + weight * v[i * width + j * 32 + lane];
        most = next;
    }
    for (int j = 0; j < width / 32; j++) out[query * width + j * 32 + lane] = sum[j] / total;
}
