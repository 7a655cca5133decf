// Blocks that do next to nothing: what starting and ending them costs.
__global__ void touch(int *out, int blocks)
{
    if (threadIdx.x == 0) out[blockIdx.x] = blockIdx.x + 1;
}
