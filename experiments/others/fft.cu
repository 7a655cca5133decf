// Fourier transforms of `size` points in shared memory, by Stockham's steps of radix 2 or 4; a block a transform.
__device__ float2 times(float2 a, float2 b) { return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
__device__ float2 plus(float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); }
__device__ float2 minus(float2 a, float2 b) { return make_float2(a.x - b.x, a.y - b.y); }

__global__ void fft(float2 *out, const float2 *in)
{
    __shared__ float2 held[2][size];
    size_t first = (size_t)blockIdx.x * size;
    for (int i = threadIdx.x; i < size; i += threads) held[0][i] = in[first + i];
    int from = 0;
    for (int run = 1; run < size; run *= radix, from ^= 1) {
        __syncthreads();
        for (int j = threadIdx.x; j < size / radix; j += threads) {
            float2 v[radix];
            int k = j % run, to = (j - k) * radix + k;
            for (int r = 0; r < radix; r++) {
                float2 w;
                sincospif(-2.0f * r * k / (run * radix), &w.y, &w.x);
                v[r] = times(w, held[from][j + r * (size / radix)]);
            }
            float2 *next = held[from ^ 1] + to;
#if radix == 2
            next[0] = plus(v[0], v[1]), next[run] = minus(v[0], v[1]);
#else
            float2 a = plus(v[0], v[2]), b = minus(v[0], v[2]), c = plus(v[1], v[3]), d = minus(v[1], v[3]);
            next[0] = plus(a, c), next[2 * run] = minus(a, c);
            next[run] = make_float2(b.x + d.y, b.y - d.x), next[3 * run] = make_float2(b.x - d.y, b.y + d.x);
#endif
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < size; i += threads) out[first + i] = held[from][i];
}
