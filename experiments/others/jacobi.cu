// A step of the five-point stencil; with `use_shared` a block reads its tile and the border once.
__global__ void jacobi(float *out, const float *in, int n)
{
    int x = blockIdx.x * block_x + threadIdx.x + 1, y = blockIdx.y * block_y + threadIdx.y + 1;
#if use_shared
    __shared__ float tile[block_y + 2][block_x + 2];
    for (int j = threadIdx.y; j < block_y + 2; j += block_y)
        for (int i = threadIdx.x; i < block_x + 2; i += block_x) {
            int gx = blockIdx.x * block_x + i, gy = blockIdx.y * block_y + j;
            tile[j][i] = gx < n + 2 && gy < n + 2 ? in[(size_t)gy * (n + 2) + gx] : 0.0f;
        }
    __syncthreads();
    int i = threadIdx.x + 1, j = threadIdx.y + 1;
    float sum = tile[j][i - 1] + tile[j][i + 1] + tile[j - 1][i] + tile[j + 1][i];
#else
    float sum = 0.0f;
    size_t at = (size_t)y * (n + 2) + x;
    if (x <= n && y <= n) sum = in[at - 1] + in[at + 1] + in[at - n - 2] + in[at + n + 2];
#endif
    if (x <= n && y <= n) out[(size_t)(y - 1) * n + x - 1] = 0.25f * sum;
}
