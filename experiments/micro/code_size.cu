// A loop over `instructions` fused multiply-adds without a branch, eight independent chains of them a thread.
// One fma is 16 bytes of code. With `apart`, each warp begins later than the one before it.
__global__ void straight(float *out, const float *x, int fma)
{
    float half = x[0] / 2, sum[8];
    int thread = blockIdx.x * threads + threadIdx.x;
    for (int c = 0; c < 8; c++) sum[c] = thread % 32 + c;
#if apart
#pragma unroll 1
    for (int i = 0; i < threadIdx.x / 32 * 64; i++) asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(sum[0]) : "f"(half), "f"(half));
#endif
#pragma unroll 1
    for (int i = 0; i < fma; i += instructions) {
#pragma unroll
        for (int k = 0; k < instructions / 8; k++)
#pragma unroll
            for (int c = 0; c < 8; c++) asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(sum[c]) : "f"(half), "f"(half));
    }
    float all = 0;
    for (int c = 0; c < 8; c++) all += sum[c];
    out[thread] = all;
}
