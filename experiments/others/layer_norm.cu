// (x - mean) / sqrt(variance + eps) of each row, one block a row.
__device__ float block_sum(float value)
{
    __shared__ float parts[32];
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    float sum = 0.0f;
    for (int i = 0; i < threads / 32; i++) sum += parts[i];
    return sum;
}

__global__ void layer_norm(float *y, const float *x, int n)
{
    const float *row = x + (size_t)blockIdx.x * n;
    float sum = 0.0f, squares = 0.0f;
    for (int i = threadIdx.x; i < n; i += threads) sum += row[i];
    float mean = block_sum(sum) / n;
    for (int i = threadIdx.x; i < n; i += threads) squares += (row[i] - mean) * (row[i] - mean);
    float scale = rsqrtf(block_sum(squares) / n + 1e-5f);
    for (int i = threadIdx.x; i < n; i += threads) y[(size_t)blockIdx.x * n + i] = (row[i] - mean) * scale;
}
