// A 32x32 tile product; its PTX is NVRTC's, its SASS ptxas's.
extern "C" __global__ void __launch_bounds__(1024) tile(const float* __restrict__ a, const float* __restrict__ b,
                                                       float* c, int n) {
    __shared__ float s[32][33];
    float sum = 0;
    for (int k = 0; k < n; k += 32) {
        s[threadIdx.y][threadIdx.x] = a[k * 32 + threadIdx.x + threadIdx.y * n] * b[threadIdx.x];
        __syncthreads();
#pragma unroll 4
        for (int i = 0; i < 32; i++) sum += s[threadIdx.y][i] * s[i][threadIdx.x];
        __syncthreads();
    }
    c[blockIdx.x * 1024 + threadIdx.y * 32 + threadIdx.x] = sum;
}
