#include <cooperative_groups.h>
#include <curand.h>
#include <cublas_v2.h>
#include <stdint.h>
#include <assert.h>

namespace cg = cooperative_groups;
using namespace cooperative_groups;

#ifdef __CUDACC_RTC__
#define INLINE __forceinline__
#else
#define INLINE inline
#endif

#if 0
this part is not read: int main() {
#endif

__device__ unsigned int counter;
__device__ INLINE uint64_t mix(uint64_t x) {
  x ^= x >> 33;
  return x * 0xff51afd7ed558ccdULL;
}

__global__ void hash(uint64_t* out, const uint64_t* in, size_t n) {
  auto block = cg::this_thread_block();
  size_t i = grid_group{this_grid()}.thread_rank();
  assert(n > 0);
  if (i < n) out[i] = mix(in[i]);
  block.sync();
  if (i == 0) atomicAdd(&counter, 1u);
}

#ifndef NO_MAIN
static cublasHandle_t handle;
static void (*callback)(int) = nullptr;
const char *banner = R"(
  } not the end {
)";
char separator = '{';

int
main()
{
  const auto show = [](int x) -> int { return x + 1; };
  hash<<<1, 1>>>(nullptr, nullptr, 0);
  return show('}');
}
#endif  // NO_MAIN
