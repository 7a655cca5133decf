struct __align__(64) TensorMap {
    unsigned long long words[16];
};

extern "C" __global__ void __launch_bounds__(128) bulk(const __grid_constant__ TensorMap map, float* out, int steps)
{
    extern __shared__ __align__(128) float tile[];
    const unsigned to = __cvta_generic_to_shared(tile), mbarrier = to + 4096;
    const bool first_warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0) == 0;
    const auto fetch = [&](int step) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 4096;" ::"r"(mbarrier) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                     "[%0], [%1, {%2, %3}], [%4];" ::"r"(to), "l"(&map), "r"(0), "r"(step), "r"(mbarrier) : "memory");
    };
    const auto elected = [] {
        unsigned chosen;
        asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(chosen));
        return chosen;
    };
    if (first_warp && elected()) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(mbarrier) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        fetch(0);
    }
    __syncthreads();
    float sum = 0;
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
        asm volatile("{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; @!done bra again; }"
                     ::"r"(mbarrier), "r"(step & 1) : "memory");
#pragma unroll
        for (int i = 0; i < 8; ++i) sum += tile[threadIdx.x + 128 * i] * tile[threadIdx.x];
        __syncthreads();
        if (first_warp && step + 1 < steps && elected()) fetch(step + 1);
    }
    out[blockIdx.x * 128 + threadIdx.x] = sum;
}
