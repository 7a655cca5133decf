// `chains` independent chains of dependent instructions of one kind a thread, each of which leaves its value as it is.
#if kind == 0
#define STEP(s) asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(s) : "f"(one), "f"(one - 1))
#elif kind == 1
#define STEP(s) asm volatile("mad.lo.s32 %0, %0, %1, %2;" : "+r"(s) : "r"(i1), "r"(i1 - 1))
#elif kind == 2
#define STEP(s) asm volatile("shf.l.wrap.b32 %0, %0, %0, %1;" : "+r"(s) : "r"(i1 - 1))
#elif kind == 3
#define STEP(s) asm volatile("rsqrt.approx.ftz.f32 %0, %0;" : "+f"(s))
#elif kind == 4
#define STEP(s) asm volatile("shfl.sync.bfly.b32 %0, %0, %1, 31, 0xffffffff;" : "+r"(s) : "r"(i1 - 1))
#elif kind == 5
#define STEP(s) asm volatile("{.reg .s32 t; cvt.rzi.s32.f32 t, %0; cvt.rn.f32.s32 %0, t;}" : "+f"(s))
#elif kind == 6
#define STEP(s) asm volatile("fma.rn.f64 %0, %0, %1, %2;" : "+d"(s) : "d"((double)one), "d"((double)one - 1))
#elif kind == 7
#define STEP(s) s = ring[s]
#endif
#if kind == 0 || kind == 3 || kind == 5
typedef float value;
#elif kind == 6
typedef double value;
#else
typedef int value;
#endif

__global__ void chain(float *out, const float *x, int steps)
{
    float one = x[0];
    int i1 = one, thread = blockIdx.x * threads + threadIdx.x;
    value s[chains];
#if kind == 7
    __shared__ volatile int ring[threads];
    ring[threadIdx.x] = threadIdx.x;
    __syncthreads();
    for (int c = 0; c < chains; c++) s[c] = (threadIdx.x + c * i1) % threads;
#else
    for (int c = 0; c < chains; c++) s[c] = i1;
#endif
#pragma unroll 8
    for (int k = 0; k < steps; k++)
#pragma unroll
        for (int c = 0; c < chains; c++) STEP(s[c]);
    float sum = 0.0f;
    for (int c = 0; c < chains; c++) sum += s[c];
    out[thread] = sum > -1.0f ? one : 0.0f;
}
