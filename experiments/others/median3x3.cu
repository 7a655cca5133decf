// The median of each pixel's 3 x 3 neighbours; a thread makes `rows` pixels of a column.
__device__ void order(float &a, float &b)
{
    const float low = fminf(a, b);
    b = fmaxf(a, b);
    a = low;
}

__global__ void median3x3(float *out, const float *in, int width, int height)
{
    const int x = blockIdx.x * block_x + threadIdx.x, y0 = (blockIdx.y * block_y + threadIdx.y) * rows;
    if (x >= width) return;
#pragma unroll
    for (int r = 0; r < rows; r++) {
        const int y = y0 + r;
        if (y >= height) return;
        float low[3], mid[3], high[3];
#pragma unroll
        for (int j = 0; j < 3; j++) {
            const float *row = in + (size_t)(y + j) * (width + 2) + x;
            float a = row[0], b = row[1], c = row[2];
            order(a, b), order(b, c), order(a, b);
            low[j] = a, mid[j] = b, high[j] = c;
        }
        float a = fmaxf(fmaxf(low[0], low[1]), low[2]), c = fminf(fminf(high[0], high[1]), high[2]);
        order(mid[0], mid[1]), order(mid[1], mid[2]), order(mid[0], mid[1]);
        float b = mid[1];
        order(a, b), order(b, c), order(a, b);
        out[(size_t)y * width + x] = b;
    }
}
