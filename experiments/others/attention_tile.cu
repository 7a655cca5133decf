// Attention with a running maximum: a thread holds a query and its sum, and a block shares tiles of keys and values.
#define WIDTH 32

__global__ void attention_tile(float *out, const float *q, const float *k, const float *v, int keys)
{
    __shared__ float shared_k[tile][WIDTH], shared_v[tile][WIDTH];
    const size_t query = (size_t)blockIdx.x * threads + threadIdx.x;
    float mine[WIDTH], sum[WIDTH] = {}, most = -1e30f, total = 0;
#pragma unroll
    for (int d = 0; d < WIDTH; d++) mine[d] = q[query * WIDTH + d] * 0.17677669f;
    for (int first = 0; first < keys; first += tile) {
        __syncthreads();
        for (int i = threadIdx.x; i < tile * WIDTH; i += threads) {
            shared_k[i / WIDTH][i % WIDTH] = k[(size_t)first * WIDTH + i];
            shared_v[i / WIDTH][i % WIDTH] = v[(size_t)first * WIDTH + i];
        }
        __syncthreads();
#pragma unroll 2
        for (int j = 0; j < tile; j += step) {
            float score[step], high = most;
#pragma unroll
            for (int s = 0; s < step; s++) {
                score[s] = 0;
#pragma unroll
                for (int d = 0; d < WIDTH; d++) score[s] += mine[d] * shared_k[j + s][d];
                high = fmaxf(high, score[s]);
            }
            const float fade = __expf(most - high);
            total *= fade;
#pragma unroll
            for (int d = 0; d < WIDTH; d++) sum[d] *= fade;
#pragma unroll
            for (int s = 0; s < step; s++) {
                const float weight = __expf(score[s] - high);
                total += weight;
#pragma unroll
                for (int d = 0; d < WIDTH; d++) sum[d] += weight * shared_v[j + s][d];
            }
            most = high;
        }
    }
#pragma unroll
    for (int d = 0; d < WIDTH; d++) out[query * WIDTH + d] = sum[d] / total;
}
