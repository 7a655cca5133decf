// One step of the seven-point stencil; a thread takes `planes` points along z.
__global__ void heat(float *out, const float *in, int nx, int ny, int nz)
{
    int x = blockIdx.x * block_x + threadIdx.x + 1, y = blockIdx.y * block_y + threadIdx.y + 1;
    if (x > nx || y > ny) return;
    int row = nx + 2, plane = row * (ny + 2);
    for (int k = 0; k < planes; k++) {
        int z = blockIdx.z * planes + k + 1;
        if (z > nz) return;
        int i = z * plane + y * row + x;
        out[i] = 0.4f * in[i] + 0.1f * (in[i - 1] + in[i + 1] + in[i - row] + in[i + row] + in[i - plane] + in[i + plane]);
    }
}
