// A (2 radius + 1)^2 mean; with use_shared the block's pixels and their border are staged.
__global__ void filter(float *out, const float *in, int width, int height)
{
    int x = blockIdx.x * block_x + threadIdx.x, y = blockIdx.y * block_y + threadIdx.y;
    int pitch = width + 2 * radius;
    float sum = 0.0f;
#if use_shared
    __shared__ float tile[block_y + 2 * radius][block_x + 2 * radius];
    for (int j = threadIdx.y; j < block_y + 2 * radius; j += block_y)
        for (int i = threadIdx.x; i < block_x + 2 * radius; i += block_x) {
            int column = blockIdx.x * block_x + i, row = blockIdx.y * block_y + j;
            tile[j][i] = column < pitch && row < height + 2 * radius ? in[row * pitch + column] : 0.0f;
        }
    __syncthreads();
#endif
    if (x >= width || y >= height) return;
#pragma unroll
    for (int j = 0; j <= 2 * radius; j++)
#pragma unroll
        for (int i = 0; i <= 2 * radius; i++)
#if use_shared
            sum += tile[threadIdx.y + j][threadIdx.x + i];
#else
            sum += in[(y + j) * pitch + x + i];
#endif
    out[y * width + x] = sum / ((2 * radius + 1) * (2 * radius + 1));
}
