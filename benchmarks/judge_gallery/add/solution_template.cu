/* lab
kernel: add<float, {UNROLL}>
grid: ceil_div(n, 512)
block: 128
parameters: {UNROLL: 4}
*/
template <typename T, int N> __global__ void add(T *__restrict__ c, const T *__restrict__ a, const T *__restrict__ b, int n) {
    int base = blockIdx.x * 128 * N + threadIdx.x;
#pragma unroll
    for (int j = 0; j < N; ++j) {
        int i = base + j * 128;
        if (i < n) c[i] = a[i] + b[i];
    }
}
