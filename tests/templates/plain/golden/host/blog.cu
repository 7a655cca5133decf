#include <cstdio>
#include <cfloat>
#include <climits>
#include <cmath>
#include <thrust/device_vector.h>
#include <thrust/reduce.h>
#include <nvToolsExt.h>

namespace bench {

struct Timer {
  cudaEvent_t start, stop;
  Timer() { cudaEventCreate(&start); cudaEventCreate(&stop); }
  ~Timer() { cudaEventDestroy(start); cudaEventDestroy(stop); }
  void begin() { cudaEventRecord(start); }
  float end() {
    float ms;
    cudaEventRecord(stop);
    cudaEventSynchronize(stop);
    cudaEventElapsedTime(&ms, start, stop);
    return ms;
  }
};

struct Report {
  std::vector<float> times;
  const char* name;
  float median() const;
};

float Report::median() const { return times[times.size() / 2]; }

template <typename T>
struct Sum {
  T start;
  Sum(T s) : start{s} {}
  __host__ __device__ __forceinline__ T operator()(T a, T b) const { return a + b; }
};

constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }
inline int blocks(int n) { return ceil_div(n, 256); }

template <typename T, int N>
__device__ T warp_sum(T x) {
#pragma unroll
  for (int offset = N / 2; offset > 0; offset /= 2) x += __shfl_down_sync(0xffffffff, x, offset);
  return x;
}

}  // namespace bench

const int WARPS = bench::ceil_div(1000, 32);

__global__ void reduce(float* out, const float* in, int n) {
  float sum = 0, low = FLT_MAX;
  for (int i = threadIdx.x; i < n && i < INT_MAX; i += blockDim.x) {
    sum += in[i] * (float)M_PI + WARPS;
    low = fminf(low, in[i]);
  }
  sum = bench::warp_sum<float, 32>(sum);
  if (threadIdx.x == 0) *out = sum + low;
}

template <typename F>
void time_it(const char* name, F f) {
  bench::Timer timer;
  nvtxRangePush(name);
  timer.begin();
  f();
  printf("%s: %f ms\n", name, timer.end());
  nvtxRangePop();
}

auto print = [](float x) { printf("%f\n", x); };

int main() {
  thrust::device_vector<float> in(1000), out(1);
  time_it("reduce", [&] { reduce<<<1, 32>>>(out.data().get(), in.data().get(), 1000); });
  print(thrust::reduce(in.begin(), in.end()));
}
