// Products of many matrices of size x size; `together` of them share a block, a thread computes one element.
__global__ void small_gemm(float *c, const float *a, const float *b)
{
    __shared__ float left[together][size][size + 1], right[together][size][size + 1];
    int i = threadIdx.y, j = threadIdx.x, m = threadIdx.z;
    size_t at = ((size_t)(blockIdx.x * together + m) * size + i) * size + j;
    left[m][i][j] = a[at], right[m][i][j] = b[at];
    __syncthreads();
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < size; k++) sum += left[m][i][k] * right[m][k][j];
    c[at] = sum;
}
