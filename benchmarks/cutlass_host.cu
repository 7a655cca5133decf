// Times SGEMM as CUTLASS's own host code launches it: nvcc -O3 -std=c++17 --expt-relaxed-constexpr
// -gencode arch=compute_90a,code=sm_90a -I <CUTLASS>/include benchmarks/cutlass_host.cu -o cutlass_host && ./cutlass_host
// kernel_src/gemm/cutlass.cu.j2 makes the kernel's parameters on the device; this says what that changes.
#include <algorithm>
#include <cstdio>
#include <vector>

#include <cutlass/gemm/device/gemm.h>

template <int BlockM, int BlockN, int WarpM, int WarpN, int Stages, class Arch>
using Sgemm = cutlass::gemm::device::Gemm<
    float, cutlass::layout::ColumnMajor, float, cutlass::layout::ColumnMajor, float, cutlass::layout::ColumnMajor, float,
    cutlass::arch::OpClassSimt, Arch, cutlass::gemm::GemmShape<BlockM, BlockN, 8>, cutlass::gemm::GemmShape<WarpM, WarpN, 8>,
    cutlass::gemm::GemmShape<1, 1, 1>, cutlass::epilogue::thread::LinearCombination<float, 1, float, float>,
    cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<4>, Stages>;

__global__ void fill(float* x, size_t count, unsigned seed)
{
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < count; i += size_t(gridDim.x) * blockDim.x) {
        unsigned h = unsigned(i) * 2654435761u + seed;
        h = (h ^ (h >> 15)) * 2246822519u;
        x[i] = float(int(h ^ (h >> 13)) / 2147483648.0);
    }
}

template <class Gemm> void measure(const char* name, int size, float* a, float* b, float* c, float* flush, size_t flushed)
{
    Gemm gemm;
    typename Gemm::Arguments arguments({size, size, size}, {a, size}, {b, size}, {c, size}, {c, size}, {1.0f, 0.0f});
    cudaEvent_t start, stop;
    cudaEventCreate(&start);
    cudaEventCreate(&stop);
    std::vector<float> times;
    for (int i = 0; i < 25; ++i) {
        fill<<<1056, 256>>>(flush, flushed, i);  // a cold L2
        cudaEventRecord(start);
        if (gemm(arguments) != cutlass::Status::kSuccess) { std::printf("%s: refused\n", name); return; }
        cudaEventRecord(stop);
        cudaEventSynchronize(stop);
        float ms;
        cudaEventElapsedTime(&ms, start, stop);
        if (i >= 4) times.push_back(ms);
    }
    std::sort(times.begin(), times.end());
    const double flop = 2.0 * size * size * size, median = times[times.size() / 2];
    std::printf("%s, %d: median %.4f ms (%.4f to %.4f, n = %zu), %.2f TFLOP/s\n", name, size, median, times.front(),
                times.back(), times.size(), flop / median / 1e9);
}

int main()
{
    const size_t most = size_t(8192) * 8192, flushed = size_t(64) << 20;
    float *a, *b, *c, *flush;
    cudaMalloc(&a, most * 4);
    cudaMalloc(&b, most * 4);
    cudaMalloc(&c, most * 4);
    cudaMalloc(&flush, flushed * 4);
    fill<<<1056, 256>>>(a, most, 1);
    fill<<<1056, 256>>>(b, most, 2);
    for (int size : {4096, 8192}) {
        measure<Sgemm<128, 128, 32, 64, 2, cutlass::arch::Sm50>>("128x128, 2 stages", size, a, b, c, flush, flushed);
        measure<Sgemm<128, 128, 32, 64, 4, cutlass::arch::Sm80>>("128x128, 4 stages", size, a, b, c, flush, flushed);
        measure<Sgemm<128, 256, 64, 64, 4, cutlass::arch::Sm80>>("128x256, 4 stages", size, a, b, c, flush, flushed);
        measure<Sgemm<256, 128, 64, 64, 4, cutlass::arch::Sm80>>("256x128, 4 stages", size, a, b, c, flush, flushed);
    }
    return cudaDeviceSynchronize() == cudaSuccess ? 0 : 1;
}
