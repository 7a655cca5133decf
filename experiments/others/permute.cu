// Moves the last axis of a tensor to the front: out[c][a][b] = in[a][b][c], `rows` values of b a thread.
__global__ void permute(float *out, const float *in, int na, int nb, int nc)
{
    __shared__ float tile[32][32 + pad];
    int c = blockIdx.x * 32 + threadIdx.x, b = blockIdx.y * 32, a = blockIdx.z;
    for (int k = threadIdx.y; k < 32; k += rows) tile[k][threadIdx.x] = in[((size_t)a * nb + b + k) * nc + c];
    __syncthreads();
    c = blockIdx.x * 32;
    for (int k = threadIdx.y; k < 32; k += rows)
        out[((size_t)(c + k) * na + a) * nb + b + threadIdx.x] = tile[threadIdx.x][k];
}
