/* lab
grid: ceil_div(n, 1024)
block: 256
*/
__global__ void add(float *c, const float *a, const float *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (4 * i + 3 < n) {
        float4 p = ((const float4 *)a)[i], q = ((const float4 *)b)[i];
        ((float4 *)c)[i] = make_float4(p.x + q.x, p.y + q.y, p.z + q.z, p.w + q.w);
    } else {
        for (int j = 4 * i; j < n; ++j) c[j] = a[j] + b[j];
    }
}
