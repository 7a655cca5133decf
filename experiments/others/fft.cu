// Fourier transforms of 1024 points each, one a block, in shared memory: 10 passes of radix 2 or 5 of radix 4.
#define POINTS 1024
#define BUTTERFLIES (POINTS / radix)
#define EACH (BUTTERFLIES / threads)

__device__ float2 turned(float2 v, int part, int whole)
{
    float s, c, angle = -6.283185307f * part / whole;
#if fast
    __sincosf(angle, &s, &c);
#else
    sincosf(angle, &s, &c);
#endif
    return make_float2(v.x * c - v.y * s, v.x * s + v.y * c);
}

__global__ void fft(float2 *out, const float2 *in)
{
    __shared__ float2 held[POINTS];
    const size_t first = (size_t)blockIdx.x * POINTS;
    for (int i = threadIdx.x; i < POINTS; i += threads) held[i] = in[first + i];
    __syncthreads();
#pragma unroll
    for (int done = 1; done < POINTS; done *= radix) {
        float2 v[EACH][radix];
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            const int j = threadIdx.x + e * threads, part = j % done;
#pragma unroll
            for (int r = 0; r < radix; r++)
                v[e][r] = turned(held[j + r * BUTTERFLIES], part * r, done * radix);
#if radix == 2
            const float2 a = v[e][0], b = v[e][1];
            v[e][0] = make_float2(a.x + b.x, a.y + b.y);
            v[e][1] = make_float2(a.x - b.x, a.y - b.y);
#else
            const float2 a = v[e][0], b = v[e][1], c = v[e][2], d = v[e][3];
            const float2 ac = make_float2(a.x + c.x, a.y + c.y), bd = make_float2(b.x + d.x, b.y + d.y);
            const float2 am = make_float2(a.x - c.x, a.y - c.y), bm = make_float2(b.x - d.x, b.y - d.y);
            v[e][0] = make_float2(ac.x + bd.x, ac.y + bd.y);
            v[e][1] = make_float2(am.x + bm.y, am.y - bm.x);
            v[e][2] = make_float2(ac.x - bd.x, ac.y - bd.y);
            v[e][3] = make_float2(am.x - bm.y, am.y + bm.x);
#endif
        }
        __syncthreads();
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            const int j = threadIdx.x + e * threads, to = j / done * done * radix + j % done;
#pragma unroll
            for (int r = 0; r < radix; r++) held[to + r * done] = v[e][r];
        }
        __syncthreads();
    }
    for (int i = threadIdx.x; i < POINTS; i += threads) out[first + i] = held[i];
}
