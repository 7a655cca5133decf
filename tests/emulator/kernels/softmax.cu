// Softmax of each row; one block a row, sums and maxima by shuffles.
#define INFINITY_F __int_as_float(0x7f800000)

template <bool FAST>
__device__ float exponential(float x) {
    if (FAST) return __expf(x);
    return expf(x);
}

template <bool MAX>
__device__ float combine(float a, float b) {
    return MAX ? fmaxf(a, b) : a + b;
}

template <bool MAX>
__device__ float block_reduce(float v, float *scratch) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    for (int d = 16; d > 0; d /= 2) v = combine<MAX>(v, __shfl_xor_sync(0xffffffffu, v, d));
    if (lane == 0) scratch[warp] = v;
    __syncthreads();  // partial results are there
    if (warp == 0) {
        v = lane < warps ? scratch[lane] : (MAX ? -INFINITY_F : 0.0f);
        for (int d = 16; d > 0; d /= 2) v = combine<MAX>(v, __shfl_down_sync(0xffffffffu, v, d));
        if (lane == 0) scratch[0] = v;
    }
    __syncthreads();  // the result is there
    v = scratch[0];
    __syncthreads();  // the result is read
    return v;
}

template <bool FAST>
__device__ void softmax(const float *x, float *y, int columns) {
    __shared__ float scratch[32];
    const float *in = x + (size_t)blockIdx.x * columns;
    float *out = y + (size_t)blockIdx.x * columns;
    float top = -INFINITY_F;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) top = fmaxf(top, in[i]);
    top = block_reduce<true>(top, scratch);
    float sum = 0.0f;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += exponential<FAST>(in[i] - top);
    sum = block_reduce<false>(sum, scratch);
    for (int i = threadIdx.x; i < columns; i += blockDim.x) out[i] = exponential<FAST>(in[i] - top) / sum;
}

extern "C" __global__ void softmax_exact(const float *x, float *y, int columns) { softmax<false>(x, y, columns); }
extern "C" __global__ void softmax_fast(const float *x, float *y, int columns) { softmax<true>(x, y, columns); }
