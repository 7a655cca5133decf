// y = a x + y in half2 and bfloat16.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" __global__ void axpy_half2(int pairs, __half a, const __half2 *x, __half2 *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < pairs) y[i] = __hfma2(__half2half2(a), x[i], y[i]);
}

extern "C" __global__ void axpy_bfloat16(int n, float a, const __nv_bfloat16 *x, __nv_bfloat16 *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = __float2bfloat16(a * __bfloat162float(x[i]) + __bfloat162float(y[i]));
}

extern "C" __global__ void axpy_bfloat162(int pairs, __nv_bfloat16 a, const __nv_bfloat162 *x, __nv_bfloat162 *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < pairs) y[i] = __hfma2(__bfloat162bfloat162(a), x[i], y[i]);
}
