typedef float real;
#define AT(i, j) ((i) * width + (j))

extern "C" {

__global__ void stencil(const real *in, real *out, int width, int height)
{
    __shared__ real tile[TILE_Y + 2][TILE_X + 2 + PAD];
    const int x = blockIdx.x * TILE_X + threadIdx.x, y = blockIdx.y * TILE_Y + threadIdx.y;
    if (x < width && y < height)
        tile[threadIdx.y + 1][threadIdx.x + 1] = in[AT(y, x)];
    __syncthreads();
#if USE_EDGE
    if (x == 0 || y == 0) { out[AT(y, x)] = 0; return; }
#endif
    if (x > 0 && y > 0 && x < width - 1 && y < height - 1)
        out[AT(y, x)] = 0.25f * (in[AT(y, x - 1)] + in[AT(y, x + 1)] + in[AT(y - 1, x)] + in[AT(y + 1, x)]);
}

}
