__global__ void stencil(float *next, const float *now, int nx, int ny, float c)
{
    int x = blockIdx.x * block_x + threadIdx.x;
    int y0 = (blockIdx.y * block_y + threadIdx.y) * rows;
#pragma unroll
    for (int r = 0; r < rows; r++) {
        int y = y0 + r;
        if (x >= nx || y >= ny) return;
        int i = y * nx + x;
        bool inner = x > 0 && x < nx - 1 && y > 0 && y < ny - 1;
        next[i] = inner ? now[i] + c * (now[i - 1] + now[i + 1] + now[i - nx] + now[i + nx] - 4.0f * now[i]) : now[i];
    }
}
