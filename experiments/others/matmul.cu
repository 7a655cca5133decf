// C = A B with square tiles in shared memory; a thread computes `work` elements of a column.
__global__ void matmul(float *c, const float *a, const float *b, int n)
{
    __shared__ float left[tile * work][tile], right[tile][tile];
    int column = blockIdx.x * tile + threadIdx.x, row = blockIdx.y * tile * work + threadIdx.y;
    float sum[work] = {};
    for (int first = 0; first < n; first += tile) {
        for (int w = 0; w < work; w++) {
            int r = row + w * tile, k = first + threadIdx.x;
            left[threadIdx.y + w * tile][threadIdx.x] = r < n && k < n ? a[r * n + k] : 0.0f;
        }
        int k = first + threadIdx.y;
        right[threadIdx.y][threadIdx.x] = k < n && column < n ? b[k * n + column] : 0.0f;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < tile; i++)
#pragma unroll
            for (int w = 0; w < work; w++) sum[w] += left[threadIdx.y + w * tile][i] * right[i][threadIdx.x];
        __syncthreads();
    }
    for (int w = 0; w < work; w++)
        if (row + w * tile < n && column < n) c[(row + w * tile) * n + column] = sum[w];
}
