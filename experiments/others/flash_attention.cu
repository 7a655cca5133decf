// Attention of one query a thread, keys and values by tiles of `tile`: the sums are scaled once a tile.
__global__ void flash_attention(float *out, const float *q, const float *k, const float *v, int queries, int keys)
{
    __shared__ float held[2][tile * width];
    int query = blockIdx.x * threads + threadIdx.x;
    float mine[width], sum[width] = {}, most = -1e30f, total = 0.0f;
    for (int j = 0; j < width; j++) mine[j] = query < queries ? q[(size_t)query * width + j] : 0.0f;
    for (int first = 0; first < keys; first += tile) {
        int count = min(tile, keys - first);
        const float *rows = k + first * width, *values = v + first * width;
        if (use_shared) {
            __syncthreads();
            for (int i = threadIdx.x; i < count * width; i += threads) held[0][i] = rows[i], held[1][i] = values[i];
            __syncthreads();
            rows = held[0], values = held[1];
        }
        float score[tile], top = most;
#pragma unroll
        for (int i = 0; i < tile; i++) {
            score[i] = -1e30f;
            if (i >= count) continue;
            float dot = 0.0f;
            for (int j = 0; j < width; j++) dot += mine[j] * rows[i * width + j];
            score[i] = dot * 0.17677670f;
            top = fmaxf(top, score[i]);
        }
        float scale = __expf(most - top);
        most = top, total *= scale;
        for (int j = 0; j < width; j++) sum[j] *= scale;
#pragma unroll
        for (int i = 0; i < tile; i++) {
            if (i >= count) continue;
            float weight = __expf(score[i] - most);
            total += weight;
            for (int j = 0; j < width; j++) sum[j] += weight * values[i * width + j];
        }
    }
    if (query < queries)
        for (int j = 0; j < width; j++) out[(size_t)query * width + j] = sum[j] / total;
}
