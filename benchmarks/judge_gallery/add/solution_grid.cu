/* lab
grid: min(ceil_div(n, 256), 1056)
block: 256
*/
__global__ void add(float *c, const float *a, const float *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (; i < n; i += gridDim.x * blockDim.x) c[i] = a[i] + b[i];
}
