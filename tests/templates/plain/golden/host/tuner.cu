#ifndef block_size_x
#define block_size_x 128
#endif
#include <cstdint>
#include <limits>

extern "C" __global__ void arg_max(int32_t *index, float *value, const float *x, uint32_t n) {
  __shared__ float best[block_size_x];
  __shared__ int32_t where[block_size_x];
  float mine = -std::numeric_limits<float>::infinity();
  int32_t at = -1;
  for (uint32_t i = threadIdx.x; i < n; i += block_size_x) {
    if (x[i] > mine) { mine = x[i]; at = i; }
  }
  best[threadIdx.x] = mine;
  where[threadIdx.x] = at;
  __syncthreads();
  for (int s = block_size_x / 2; s > 0; s >>= 1) {
    if (threadIdx.x < s && best[threadIdx.x + s] > best[threadIdx.x]) {
      best[threadIdx.x] = best[threadIdx.x + s];
      where[threadIdx.x] = where[threadIdx.x + s];
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) { *index = where[0]; *value = best[0]; }
}

extern "C" float call_arg_max(int32_t *index, float *value, const float *x, uint32_t n) {
  arg_max<<<1, block_size_x>>>(index, value, x, n);
  return (float)cudaDeviceSynchronize();
}
