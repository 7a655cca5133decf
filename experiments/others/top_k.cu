// The `k` largest numbers of each row and their places, a warp a row: the lanes' largest meet k times.
__global__ void top_k(float *value, int *place, const float *x, int rows)
{
    int lane = threadIdx.x % 32, row = (blockIdx.x * threads + threadIdx.x) / 32;
    if (row >= rows) return;
    float mine[width / 32];
    for (int j = 0; j < width / 32; j++) mine[j] = x[(size_t)row * width + j * 32 + lane];
    float best = -INFINITY;
    int at = 0, from = 0;
    bool stale = true;
    for (int r = 0; r < k; r++) {
        if (stale || !keep) {
            best = -INFINITY;
#pragma unroll
            for (int j = 0; j < width / 32; j++)
                if (mine[j] > best) best = mine[j], from = j;
        }
        float most = best;
        at = from * 32 + lane;
        for (int step = 16; step > 0; step /= 2) {
            float other = __shfl_xor_sync(0xffffffffu, most, step);
            int there = __shfl_xor_sync(0xffffffffu, at, step);
            if (other > most || (other == most && there < at)) most = other, at = there;
        }
        stale = at % 32 == lane;
#pragma unroll
        for (int j = 0; j < width / 32; j++)
            if (at == j * 32 + lane) mine[j] = -INFINITY;
        if (lane == 0) value[row * k + r] = most, place[row * k + r] = at;
    }
}
