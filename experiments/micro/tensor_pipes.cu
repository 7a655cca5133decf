// Independent chains of matrix instructions of one kind a warp, of zeros: sums stay. Kinds 0 to 4 are mma.sync
// (float16, bfloat16, tf32, int8, e4m3); 5 and 6 are wgmma of bfloat16, one chain a warpgroup, 64 and 256 columns, of
// which `together` are waited for together.
#ifndef together
#define together 16
#endif
#if kind <= 4
typedef int sums[4];
#define MMA(s, shape, types, a, b) \
    asm volatile("mma.sync.aligned." shape ".row.col." types " { %0, %1, %2, %3 }, " a ", " b ", { %0, %1, %2, %3 };" \
                 : "+r"(s[0]), "+r"(s[1]), "+r"(s[2]), "+r"(s[3]) : "r"(zero))
#endif
#if kind == 0
#define STEP(s) MMA(s, "m16n8k16", "f32.f16.f16.f32", "{ %4, %4, %4, %4 }", "{ %4, %4 }")
#elif kind == 1
#define STEP(s) MMA(s, "m16n8k16", "f32.bf16.bf16.f32", "{ %4, %4, %4, %4 }", "{ %4, %4 }")
#elif kind == 2
#define STEP(s) MMA(s, "m16n8k8", "f32.tf32.tf32.f32", "{ %4, %4, %4, %4 }", "{ %4, %4 }")
#elif kind == 3
#define STEP(s) MMA(s, "m16n8k32", "s32.s8.s8.s32", "{ %4, %4, %4, %4 }", "{ %4, %4 }")
#elif kind == 4
#define STEP(s) MMA(s, "m16n8k32", "f32.e4m3.e4m3.f32", "{ %4, %4, %4, %4 }", "{ %4, %4 }")
#elif kind == 5
typedef float sums[32];
#define STEP(s) \
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 { " \
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31 " \
        "}, %32, %32, 1, 1, 1, 0, 0;" \
        : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3]), "+f"(s[4]), "+f"(s[5]), "+f"(s[6]), "+f"(s[7]), \
          "+f"(s[8]), "+f"(s[9]), "+f"(s[10]), "+f"(s[11]), "+f"(s[12]), "+f"(s[13]), "+f"(s[14]), "+f"(s[15]), \
          "+f"(s[16]), "+f"(s[17]), "+f"(s[18]), "+f"(s[19]), "+f"(s[20]), "+f"(s[21]), "+f"(s[22]), "+f"(s[23]), \
          "+f"(s[24]), "+f"(s[25]), "+f"(s[26]), "+f"(s[27]), "+f"(s[28]), "+f"(s[29]), "+f"(s[30]), "+f"(s[31]) \
        : "l"(tile))
#elif kind == 6
typedef float sums[128];
#define STEP(s) \
    asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 { " \
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, " \
        "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
        "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, " \
        "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
        "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127 " \
        "}, %128, %128, 1, 1, 1, 0, 0;" \
        : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3]), "+f"(s[4]), "+f"(s[5]), "+f"(s[6]), "+f"(s[7]), \
          "+f"(s[8]), "+f"(s[9]), "+f"(s[10]), "+f"(s[11]), "+f"(s[12]), "+f"(s[13]), "+f"(s[14]), "+f"(s[15]), \
          "+f"(s[16]), "+f"(s[17]), "+f"(s[18]), "+f"(s[19]), "+f"(s[20]), "+f"(s[21]), "+f"(s[22]), "+f"(s[23]), \
          "+f"(s[24]), "+f"(s[25]), "+f"(s[26]), "+f"(s[27]), "+f"(s[28]), "+f"(s[29]), "+f"(s[30]), "+f"(s[31]), \
          "+f"(s[32]), "+f"(s[33]), "+f"(s[34]), "+f"(s[35]), "+f"(s[36]), "+f"(s[37]), "+f"(s[38]), "+f"(s[39]), \
          "+f"(s[40]), "+f"(s[41]), "+f"(s[42]), "+f"(s[43]), "+f"(s[44]), "+f"(s[45]), "+f"(s[46]), "+f"(s[47]), \
          "+f"(s[48]), "+f"(s[49]), "+f"(s[50]), "+f"(s[51]), "+f"(s[52]), "+f"(s[53]), "+f"(s[54]), "+f"(s[55]), \
          "+f"(s[56]), "+f"(s[57]), "+f"(s[58]), "+f"(s[59]), "+f"(s[60]), "+f"(s[61]), "+f"(s[62]), "+f"(s[63]), \
          "+f"(s[64]), "+f"(s[65]), "+f"(s[66]), "+f"(s[67]), "+f"(s[68]), "+f"(s[69]), "+f"(s[70]), "+f"(s[71]), \
          "+f"(s[72]), "+f"(s[73]), "+f"(s[74]), "+f"(s[75]), "+f"(s[76]), "+f"(s[77]), "+f"(s[78]), "+f"(s[79]), \
          "+f"(s[80]), "+f"(s[81]), "+f"(s[82]), "+f"(s[83]), "+f"(s[84]), "+f"(s[85]), "+f"(s[86]), "+f"(s[87]), \
          "+f"(s[88]), "+f"(s[89]), "+f"(s[90]), "+f"(s[91]), "+f"(s[92]), "+f"(s[93]), "+f"(s[94]), "+f"(s[95]), \
          "+f"(s[96]), "+f"(s[97]), "+f"(s[98]), "+f"(s[99]), "+f"(s[100]), "+f"(s[101]), "+f"(s[102]), "+f"(s[103]), \
          "+f"(s[104]), "+f"(s[105]), "+f"(s[106]), "+f"(s[107]), "+f"(s[108]), "+f"(s[109]), "+f"(s[110]), "+f"(s[111]), \
          "+f"(s[112]), "+f"(s[113]), "+f"(s[114]), "+f"(s[115]), "+f"(s[116]), "+f"(s[117]), "+f"(s[118]), "+f"(s[119]), \
          "+f"(s[120]), "+f"(s[121]), "+f"(s[122]), "+f"(s[123]), "+f"(s[124]), "+f"(s[125]), "+f"(s[126]), "+f"(s[127]) \
        : "l"(tile))
#endif

__global__ void __launch_bounds__(threads) products(float *out, const float *x, int steps)
{
    const float one = x[0];
    sums s[chains];
    for (int c = 0; c < chains; c++)
        for (int i = 0; i < sizeof(sums) / 4; i++) s[c][i] = one - 1;
#if kind <= 4
    const int zero = one - 1;
    for (int k = 0; k < steps; k++)
#pragma unroll
        for (int c = 0; c < chains; c++) STEP(s[c]);
#else
    // 8 lines of 128 bytes over and over: what a description finds is zeros wherever it looks
    __shared__ __align__(1024) float tiles[(64 + 256) * 32];
    for (int i = threadIdx.x; i < (64 + 256) * 32; i += threads) tiles[i] = one - 1;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    const unsigned long long at = __cvta_generic_to_shared(tiles);
    const unsigned long long tile = at / 16 | 1ull << 16 | 64ull << 32 | 1ull << 62;
    for (int k = 0; k < steps; k++)
#pragma unroll
        for (int group = 0; group < 16 / together; group++) {
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
            for (int u = 0; u < together; u++) STEP(s[0]);
            asm volatile("wgmma.commit_group.sync.aligned;\n\twgmma.wait_group.sync.aligned 0;" ::: "memory");
        }
#endif
    float sum = 0.0f;
    for (int c = 0; c < chains; c++)
        for (int i = 0; i < sizeof(sums) / 4; i++) sum += s[c][i];
    out[blockIdx.x * threads + threadIdx.x] = sum + one;
}
