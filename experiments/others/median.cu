// The median of 3 x 3 pixels, `rows` pixels a thread: the least, the middle and the greatest of sorted columns.
__device__ void order(float &a, float &b) { float low = fminf(a, b); b = fmaxf(a, b), a = low; }
__device__ float middle(float a, float b, float c) { return fmaxf(fminf(a, b), fminf(fmaxf(a, b), c)); }

__global__ void median(float *out, const float *in, int width, int height)
{
    int x = blockIdx.x * block_x + threadIdx.x, first = (blockIdx.y * block_y + threadIdx.y) * rows;
    const float *source = in + x;
    int pitch = width + 2, top = first;
#if use_shared
    __shared__ float held[(block_y * rows + 2) * (block_x + 2)];
    for (int j = threadIdx.y; j < block_y * rows + 2; j += block_y)
        for (int i = threadIdx.x; i < block_x + 2; i += block_x) {
            int row = blockIdx.y * block_y * rows + j, column = blockIdx.x * block_x + i;
            held[j * (block_x + 2) + i] = row < height + 2 && column < pitch ? in[(size_t)row * pitch + column] : 0.0f;
        }
    __syncthreads();
    source = held + threadIdx.x, pitch = block_x + 2, top = threadIdx.y * rows;
#endif
    for (int k = 0; k < rows; k++) {
        if (x >= width || first + k >= height) return;
        float p[3][3];
#pragma unroll
        for (int i = 0; i < 3; i++) {
            for (int j = 0; j < 3; j++) p[i][j] = source[(size_t)(top + k + j) * pitch + i];
            order(p[i][0], p[i][1]), order(p[i][1], p[i][2]), order(p[i][0], p[i][1]);
        }
        float least = fmaxf(fmaxf(p[0][0], p[1][0]), p[2][0]), greatest = fminf(fminf(p[0][2], p[1][2]), p[2][2]);
        out[(size_t)(first + k) * width + x] = middle(least, middle(p[0][1], p[1][1], p[2][1]), greatest);
    }
}
